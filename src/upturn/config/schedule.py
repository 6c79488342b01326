"""The section of ``upturn.toml`` for loops that go on by themselves."""

from upturn.config.settings import Count, Positive, Settings, settings


@settings
class ScheduleConfig(Settings):
    """When ``upturn loop run`` begins the next cycle. With this section, or with ``--forever``, the loop goes on
    until it is stopped, or its tasks end. ``loop.cycles`` then has no effect."""

    every_hours: Positive | None = None
    """Hours from the beginning of a cycle to that of the next. Unset = the next begins when one has ended."""
    after_outcomes: Count | None = None
    """Number of outcomes (verdicts, feedback) that routing must have learned since a cycle began before the next
    begins. Unset = any number."""
