"""The settings of learning from the policy's own successes: which are kept, and second tries with help."""

from collections.abc import Iterator
from typing import Literal

from upturn.config import Count, Settings, settings, useless

Prefer = Literal["reward", "shortest", "diverse"]
"""Which of a task's successes go first. ``reward``: the highest. ``shortest``: the fewest turns, then the
fewest written tokens. ``diverse``: the one with the highest reward, then always the one least like those chosen
already."""
SecondKind = Literal["rationalisation", "self_repair"]
"""What helps a second try. ``rationalisation``: the answer (STaR). ``self_repair``: what went wrong the first time,
which tells no answer."""


@settings
class SelectionSettings(Settings):
    """Which trajectories are learned from."""

    threshold: float = 0.8
    """What a trajectory must have earned over all its turns to be a success; as where supervised training takes
    successes from the pool."""
    top: Count | None = None
    """The most that are kept of one task in an iteration, over all its groups, so that easy tasks do not crowd out
    the others; ``false`` = all."""
    prefer: Prefer = "reward"
    """Which of a task's successes go first: the best, the shortest, or after the best the least alike."""
    distinct: bool = True
    """Whether trajectories of a task that wrote the same tokens count once."""

    def problems(self) -> Iterator[str | None]:
        """What is wrong with several fields together."""
        yield useless(
            self.top is None and self.prefer != "reward",
            f"prefer={self.prefer!r}",
            "with top=None, where every success is kept; set top, or leave prefer out",
        )


@settings
class SecondSettings(Settings):
    """Second tries, with help, at tasks without a success."""

    kind: SecondKind
    """What helps: the answer (``rationalisation``), or what went wrong (``self_repair``)."""
    mentions: tuple[str, ...] = ("hint",)
    """Words that give away that there was help: trajectories that write one are not learned from. Whole words, in
    any case. Those that repeat the help itself never are."""

    def problems(self) -> Iterator[str | None]:
        """What is wrong with several fields together."""
        if not all(word.strip() for word in self.mentions):
            yield f"mentions must be words, got {self.mentions!r}"
