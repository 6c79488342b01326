"""Sensitivity labels of mails and files."""

from typing import Literal, get_args

Label = Literal["public", "general", "confidential", "privileged"]
LABELS: tuple[Label, ...] = get_args(Label)
SENSITIVE: frozenset[Label] = frozenset({"confidential", "privileged"})
"""Reading these without need is a soft violation; ``privileged`` is between a client and an attorney."""
