"""What a lesson made."""

from upturn.records import AgentVersion, Result, record


@record
class Learned:
    """The version, and what there is to say of it beside its exams."""

    version: AgentVersion
    """The one that was trained where nothing was kept."""
    results: tuple[Result, ...] = ()
    lines: tuple[str, ...] = ()
    """For the card."""
