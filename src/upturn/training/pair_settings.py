"""The settings of preference pairs: how they are made, and the loss on them. No torch here."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from upturn.config import Count, NotNegative, Positive, Settings, Share, settings, useless

PairLoss = Literal["sigmoid", "ipo"]
"""``sigmoid``: DPO's. ``ipo``: a square around a fixed margin, for preferences that are certain."""
Reference = Literal["recorded", "initial"]
"""The policy that preferences are measured from. ``recorded``: whoever sampled, by the log-probs in the rows;
``initial``: the weights before training."""
PairedBy = Literal["trajectory", "turn"]
"""``trajectory``: the best trajectory of a group against the worst. ``turn``: actions after one history."""
ValuedBy = Literal["returns", "state_values"]
"""What an action was worth: what the trajectories that took it went on to earn, or its reward and the measured
value of the state it led to."""


@settings
class PairObjectiveSettings(Settings):
    """The loss of pairs."""

    kind: PairLoss = "sigmoid"
    """``sigmoid``: DPO's. ``ipo``: a square around a fixed margin, for preferences that are certain."""
    beta: Positive = 0.1
    """How strongly the reference holds: smaller lets the model move further for the same preference."""
    label_smoothing: Annotated[float, Field(ge=0, lt=0.5)] = 0.0
    """Share of pairs taken to be the wrong way round (conservative DPO)."""
    is_length_normalised: bool = False
    """Each side's log-probabilities are averaged over its written tokens instead of added up, so that a longer side
    does not weigh more."""
    sft_coefficient: Positive | None = None
    """Of a supervised term on the better sides (arXiv 2404.19733), whose probability may else fall along with the
    others'; left out = no such term."""

    def problems(self) -> Iterator[str | None]:
        """What is wrong with several fields together."""
        yield useless(
            self.kind == "ipo" and self.label_smoothing != 0,
            f"label_smoothing={self.label_smoothing!r}",
            "with kind='ipo', whose margin is bounded already; leave it out, or take kind='sigmoid'",
        )


@settings
class PairSettings(Settings):
    """How the trajectories of a group become pairs."""

    by: PairedBy = "trajectory"
    """What is paired: the best trajectory of a task with the worst, or different actions after one history."""
    min_margin: NotNegative = 0.0
    """Pairs are kept where one side is better by more than this (θ of Agent Q); with a critic, whose values differ
    by chance, set it above 0."""
    valued_by: ValuedBy = "returns"
    """What an action was worth, for ``by = "turn"``: what the trajectories that took it went on to earn, or its
    reward and the value of the state that it led to, measured by going on from there."""
    monte_carlo_share: Share = 1.0
    """α of Agent Q: Q = α·(what was earned) + (1 − α)·(what a critic estimates), for ``by = "turn"``; 1 = there is
    no critic."""
    gamma: Share = 1.0
    """Discount per turn, also of a critic that learns."""
    continuations: Count | None = None
    """Trajectories that go on from each state, for ``valued_by = "state_values"``; they cost the tokens that they
    write. Left out = 8."""

    def problems(self) -> Iterator[str | None]:
        """What is wrong with several fields together."""
        whole = self.by == "trajectory"
        cure = "with by='trajectory', which compares whole trajectories by returns; leave it out, or by='turn'"
        yield useless(whole and self.valued_by != "returns", f"valued_by={self.valued_by!r}", cure)
        yield useless(whole and self.monte_carlo_share != 1, f"monte_carlo_share={self.monte_carlo_share!r}", cure)
        yield useless(
            self.monte_carlo_share == 0 and self.valued_by != "returns",
            f"valued_by={self.valued_by!r}",
            "with monte_carlo_share=0, where the critic alone says what an action is worth; leave it out",
        )
        yield useless(
            self.continuations is not None and self.valued_by != "state_values",
            f"continuations={self.continuations!r}",
            f"with valued_by={self.valued_by!r}",
        )
