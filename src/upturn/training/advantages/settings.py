"""The settings of advantage estimators. No torch here.

An option that the chosen estimator does not use must have its default.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

from pydantic import Field

from upturn.config import Count, NotNegative, Positive, Probability, Settings, report_unused, settings

Estimator = Literal["trajectory", "turn", "state", "tree", "monte_carlo", "divergence", "components"]
Baseline = Literal["group_mean", "leave_one_out", "none"]
Scale = Literal["none", "std", "mean", "batch_std", "whiten"]
Anchor = Literal["state_hash", "observation"]

_BASELINES: dict[Estimator, tuple[Baseline, ...]] = {
    "trajectory": ("group_mean", "leave_one_out", "none"),
    "tree": ("group_mean", "leave_one_out"),
}
"""Estimators with a choice of baseline, and their choices."""
_SCALES: dict[Estimator, tuple[Scale, ...]] = {
    "trajectory": ("none", "std", "mean", "batch_std", "whiten"),
    "turn": ("none", "std", "batch_std", "whiten"),
    "state": ("none", "std", "batch_std", "whiten"),
    "components": ("none", "whiten"),
}
_OTHER_SCALES: tuple[Scale, ...] = ("none", "batch_std", "whiten")
"""Of the other estimators, which do not divide within a group."""
_MEASURED: tuple[Estimator, ...] = ("monte_carlo", "divergence")


@settings
class LagrangianSettings(Settings):
    """Budgets of costs, enforced by multipliers; see ``upturn.training.advantages.lagrangian``."""

    budgets: Annotated[Mapping[str, NotNegative], Field(min_length=1)]
    """By cost, such as ``safety``: its largest mean per trajectory."""
    rate: Positive = 0.1
    """η: rise of a multiplier per iteration and unit of cost above the budget."""
    most: Positive = 10.0
    """Largest value of a multiplier: ten times a whole task's reward for a cost of 1 outweighs any reward."""


@settings
class AdvantageSettings(Settings):
    """The advantage estimator and its options; see ``upturn.training.advantages``."""

    estimator: Estimator = "trajectory"
    """The estimator; ``trajectory`` compares whole trajectories of one task, ``components`` each component of their
    rewards by itself (GDPO)."""
    gamma: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Discount per turn, in (0, 1]; 1 = a reward counts the same in every earlier turn. Not used by ``tree``
    and ``components``."""
    baseline: Baseline = "group_mean"
    """The subtracted baseline; ``none`` needs ``scale="whiten"``, which subtracts the iteration's mean, as in
    REINFORCE++."""
    scale: Scale = "none"
    """``std`` divides by the group's sample standard deviation, which favours nearly solved and nearly impossible
    tasks (Dr. GRPO, arXiv 2503.20783), and is therefore not the default. ``mean`` divides by the group's mean
    return (MaxRL). ``batch_std`` divides by the standard deviation of all returns of the iteration (Lite-PPO),
    ``whiten`` scales the advantages of all written tokens of the iteration to mean 0 and standard deviation 1."""
    turn_weight: Positive | None = None
    """ω: the advantage is that of ``trajectory``, with the same gamma, baseline and scale, plus ω times that of the
    estimator. None = the estimator's alone; for ``state``, which combines both itself, 1."""
    anchor: Anchor = "state_hash"
    """For ``state``: how equal states are identified. ``observation`` compares the observed text, as the method's
    paper does, for environments without state hashes."""
    is_shaped: bool = False
    """For ``turn``: shape rewards by the trajectories' potentials, as r + γΦ(s′) − Φ(s)."""
    error_probability: Probability | None = None
    """For ``divergence``: largest probability of a false credit per trajectory; None = 0.05."""
    value_range: Positive | None = None
    """For ``divergence``: largest possible return minus smallest, penalties and the 0 after the end included; None
    = 1. Observed returns further apart are refused."""
    continuations: Count | None = None
    """Trajectories continued from each state to measure its value, for ``monte_carlo`` and ``divergence``; they
    cost the tokens that they write. None = 8."""
    lagrangian: LagrangianSettings | None = None
    """Budgets of costs; None = no budgets. Not for estimators that value states by continuations, whose returns do
    not include multipliers."""

    def problems(self) -> Iterator[str | None]:
        """Yields the problems of field combinations."""
        chosen = f"with estimator={self.estimator!r}"
        baselines, scales = _BASELINES.get(self.estimator), _SCALES.get(self.estimator, _OTHER_SCALES)
        yield _unknown(self.baseline, "baseline", baselines or ("group_mean",), chosen)
        yield _unknown(self.scale, "scale", scales, chosen)
        is_unread = self.estimator in ("tree", "components") and self.gamma != 1
        yield report_unused(is_unread, f"gamma={self.gamma!r}", f"{chosen}; leave it at 1")
        yield report_unused(
            self.estimator in ("trajectory", "components") and self.turn_weight is not None,
            f"turn_weight={self.turn_weight!r}",
            f"{chosen}, which has no turn credit; choose another estimator or leave it out",
        )
        yield report_unused(
            self.is_shaped and self.estimator != "turn",
            "is_shaped=True",
            f"{chosen}: potentials cancel out there; use it with 'turn'",
        )
        yield report_unused(
            self.estimator != "state" and self.anchor != "state_hash",
            f"anchor={self.anchor!r}",
            f"{chosen}; it belongs to 'state'",
        )
        for name in ("error_probability", "value_range"):
            value = getattr(self, name)
            is_unread = self.estimator != "divergence" and value is not None
            yield report_unused(is_unread, f"{name}={value!r}", f"{chosen}; it belongs to 'divergence'")
        yield report_unused(
            self.continuations is not None and not self.measures,
            f"continuations={self.continuations!r}",
            f"{chosen}, which needs no values of states; leave it out, or choose 'monte_carlo' or 'divergence'",
        )
        yield self._combination()
        yield self._constraint()

    @property
    def measures(self) -> bool:
        """True when continuations measure the values of states."""
        return self.estimator in _MEASURED

    def _combination(self) -> str | None:
        """The problem of baseline and scale together, or None."""
        if self.baseline == "none" and self.scale != "whiten":
            return (
                f"baseline='none' with scale={self.scale!r} leaves every turn the raw return; "
                "set scale='whiten', which subtracts the iteration's mean, or another baseline"
            )
        if self.scale == "mean" and self.baseline != "group_mean":
            return f"scale='mean' divides by the baseline, so baseline={self.baseline!r} does not go with it"
        return None

    def _constraint(self) -> str | None:
        """The problem of budgets with other settings, or None."""
        if self.lagrangian is None:
            return None
        if self.estimator in _MEASURED:
            return (
                f"lagrangian does not go with estimator={self.estimator!r}: no costs are subtracted from the "
                "returns of continuations; take another estimator, or cost_limits"
            )
        if self.estimator == "components":
            return (
                "lagrangian does not go with estimator='components': costs are no component of the reward; take "
                "another estimator, or cost_limits"
            )
        if self.scale == "mean":
            return "lagrangian does not go with scale='mean', which divides by returns that costs may make 0"
        return None


def _unknown(value: str, name: str, allowed: tuple[str, ...], chosen: str) -> str | None:
    if value in allowed:
        return None
    return f"{name}={value!r} would do nothing {chosen}; it takes {', '.join(map(repr, allowed))}"
