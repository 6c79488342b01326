"""A contradiction between settings, and settings without effect beside another one."""

from collections.abc import Collection, Iterator
from typing import NamedTuple

from upturn.config.settings import Settings, changed_settings


class Contradiction(NamedTuple):
    """Settings that contradict each other."""

    settings: tuple[str, ...]
    """Full names of the settings, such as ``routing.policy``."""
    message: str


def without_effect(
    section: Settings, prefix: str, other: str, reason: str, *, names: Collection[str] | None = None
) -> Iterator[Contradiction]:
    """Yields a contradiction with the setting ``other`` for each changed setting of the section.

    ``names`` restricts it to some settings (None = all); ``reason`` ends the message.
    """
    for name, text in changed_settings(section, prefix):
        if names is None or name.partition(".")[0] in names:
            yield Contradiction((f"{prefix}.{name}", other), f"{text} has no effect {reason}")
