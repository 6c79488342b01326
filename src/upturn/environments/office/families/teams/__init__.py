"""Tasks in Teams: chats with colleagues and channels of teams.

Not here: posts that end a longer task (``cross_app``). Start with ``chats``.
"""

from upturn.environments.office.families.teams.channels import FAMILIES as CHANNELS
from upturn.environments.office.families.teams.chats import FAMILIES as CHATS

__all__ = ["CHANNELS", "CHATS"]
