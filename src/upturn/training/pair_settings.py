"""The settings of preference pairs: how they are built, and their loss. No torch here."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from upturn.config import Count, NotNegative, Positive, Settings, Share, report_unused, settings
from upturn.training.run_settings import EpochSettings

PairLoss = Literal["sigmoid", "ipo"]
"""``sigmoid``: DPO's. ``ipo``: squared distance to a fixed margin, for preferences without noise."""
Reference = Literal["recorded", "initial"]
"""The reference policy. ``recorded``: the sampler, by the log-probs in the rows; ``initial``: the weights before
training."""
PairedBy = Literal["trajectory", "turn"]
"""``trajectory``: the best trajectory of a group with the worst. ``turn``: actions after the same history."""
ValuedBy = Literal["returns", "state_values"]
"""The value of an action: the returns of the trajectories that took it, or its reward plus the measured value of
the next state."""


@settings
class PairObjectiveSettings(Settings):
    """The loss of pairs."""

    kind: PairLoss = "sigmoid"
    """``sigmoid``: DPO's. ``ipo``: squared distance to a fixed margin, for preferences without noise."""
    beta: Positive = 0.1
    """Strength of the pull to the reference: smaller lets the model move further for the same preference."""
    label_smoothing: Annotated[float, Field(ge=0, lt=0.5)] = 0.0
    """Assumed share of mislabelled pairs (conservative DPO)."""
    is_length_normalised: bool = False
    """Average each side's log-probs over its written tokens instead of adding them up, so that a longer side does
    not weigh more."""
    sft_coefficient: Positive | None = None
    """Coefficient of a supervised term on the chosen sides (arXiv 2404.19733), whose probability can otherwise fall
    along with the rejected ones'; omit for no such term."""

    def problems(self) -> Iterator[str | None]:
        """Yields the problems of field combinations."""
        yield report_unused(
            self.kind == "ipo" and self.label_smoothing != 0,
            f"label_smoothing={self.label_smoothing!r}",
            "with kind='ipo', whose margin is bounded already; leave it out, or take kind='sigmoid'",
        )


@settings
class StoredPairSettings(EpochSettings):
    """Training on pairs of trajectories from the pool: those of two versions for the same task, and corrections by
    people."""

    batch_pairs: Count = 32
    """Pairs in one optimiser step."""
    old: str = ""
    """Id of one of two agent versions whose trajectories of the same tasks are compared, such as ``nano@base``;
    empty = no such pairs."""
    new: str = ""
    """Id of the other version."""
    min_margin: NotNegative = 0.0
    """Pairs from the pool whose scores differ by no more than this are dropped."""

    def problems(self) -> Iterator[str | None]:
        """Yields the problems of field combinations."""
        yield from super().problems()
        if bool(self.old) != bool(self.new):
            present, missing = ("old", "new") if self.old else ("new", "old")
            yield f"{present} has no effect without {missing}; set both, or neither"
        if self.old and self.old == self.new:
            yield f"old and new are both {self.old!r}; name two versions that did the same tasks"


@settings
class PairSettings(Settings):
    """How the trajectories of a group become pairs."""

    by: PairedBy = "trajectory"
    """What is paired: the best trajectory of a task with the worst, or different actions after the same history."""
    min_margin: NotNegative = 0.0
    """Pairs whose sides differ by no more than this are dropped (θ of Agent Q); with a critic, whose values are
    noisy, set it above 0."""
    valued_by: ValuedBy = "returns"
    """The value of an action, for ``by = "turn"``: the returns of the trajectories that took it, or its reward plus
    the value of the next state, measured by continuations from there."""
    monte_carlo_share: Share = 1.0
    """α of Agent Q: Q = α·(measured value) + (1 − α)·(critic's estimate), for ``by = "turn"``; 1 = no critic."""
    gamma: Share = 1.0
    """Discount per turn, also for a trained critic."""
    continuations: Count | None = None
    """Trajectories continued from each state, for ``valued_by = "state_values"``; they cost the tokens that they
    write. Omit for 8."""

    def problems(self) -> Iterator[str | None]:
        """Yields the problems of field combinations."""
        is_whole = self.by == "trajectory"
        cure = "with by='trajectory', which compares whole trajectories by returns; leave it out, or by='turn'"
        valued_by = f"valued_by={self.valued_by!r}"
        yield report_unused(is_whole and self.valued_by != "returns", valued_by, cure)
        yield report_unused(
            is_whole and self.monte_carlo_share != 1, f"monte_carlo_share={self.monte_carlo_share!r}", cure
        )
        yield report_unused(
            self.monte_carlo_share == 0 and self.valued_by != "returns",
            valued_by,
            "with monte_carlo_share=0, where the critic alone values actions; leave it out",
        )
        yield report_unused(
            self.continuations is not None and self.valued_by != "state_values",
            f"continuations={self.continuations!r}",
            f"with {valued_by}",
        )
