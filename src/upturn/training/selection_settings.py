"""The settings of training on the policy's own successes: which are selected, and rollouts with a hint."""

from collections.abc import Iterator
from typing import Literal

from upturn.config import Count, Settings, report_unused, settings

Prefer = Literal["reward", "shortest", "diverse"]
"""Which of a task's successes are selected first. ``reward``: the highest reward. ``shortest``: the fewest turns,
then the fewest written tokens. ``diverse``: the highest reward, then repeatedly the success least similar to those
selected."""
HintKind = Literal["rationalisation", "self_repair"]
"""What the hint contains. ``rationalisation``: the answer (STaR). ``self_repair``: what went wrong in an earlier
trajectory, which does not reveal the answer."""


@settings
class SelectionSettings(Settings):
    """Which trajectories are trained on."""

    threshold: float = 0.8
    """Total reward over all turns from which a trajectory is a success, as in supervised training on successes from
    the pool."""
    top: Count | None = None
    """Largest number of trajectories selected per task and iteration, over all its groups, so that easy tasks do
    not dominate; ``false`` = no limit."""
    prefer: Prefer = "reward"
    """Which of a task's successes are selected first: the best, the shortest, or after the best the least
    similar."""
    distinct: bool = True
    """Whether trajectories of a task with the same written tokens count once."""

    def problems(self) -> Iterator[str | None]:
        """Yields the problems of field combinations."""
        yield report_unused(
            self.top is None and self.prefer != "reward",
            f"prefer={self.prefer!r}",
            "with top=None, which selects every success; set top, or leave prefer out",
        )


@settings
class HintSettings(Settings):
    """Rollouts with a hint for tasks where every trajectory failed."""

    kind: HintKind
    """What the hint contains: the answer (``rationalisation``), or what went wrong (``self_repair``)."""
    mentions: tuple[str, ...] = ("hint",)
    """Words that reveal a hint: trajectories that write one are not trained on. Whole words, in any case.
    Trajectories that repeat the hint itself are never trained on."""

    def problems(self) -> Iterator[str | None]:
        """Yields the problems of field combinations."""
        if not all(word.strip() for word in self.mentions):
            yield f"mentions must be words, got {self.mentions!r}"
