"""How the rewards of a group become one number per turn, as settings. No torch here.

An estimator reads only some of the options; one that it does not read, and that is not at its default, is refused.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from upturn.training.validators import is_not_negative, is_positive, refuse, unless, unless_missing, useless

Estimator = Literal["trajectory", "turn", "state", "tree", "monte_carlo", "divergence"]
Baseline = Literal["group_mean", "leave_one_out", "none"]
Scale = Literal["none", "std", "mean", "batch_std", "whiten"]
Anchor = Literal["state_hash", "observation"]

_BASELINES: dict[Estimator, tuple[Baseline, ...]] = {
    "trajectory": ("group_mean", "leave_one_out", "none"),
    "tree": ("group_mean", "leave_one_out"),
}
"""Where the baseline can be chosen; elsewhere the estimator has one of its own."""
_SCALES: dict[Estimator, tuple[Scale, ...]] = {
    "trajectory": ("none", "std", "mean", "batch_std", "whiten"),
    "turn": ("none", "std", "batch_std", "whiten"),
    "state": ("none", "std", "batch_std", "whiten"),
}
_OWN_SCALES: tuple[Scale, ...] = ("none", "batch_std", "whiten")
"""Of the others: nothing within their group is divided by."""
_SHAPED: tuple[Estimator, ...] = ("trajectory", "turn")
"""Where a potential changes anything: the others compare what follows the same state, where it cancels out."""
_MEASURED: tuple[Estimator, ...] = ("monte_carlo", "divergence")


@dataclass(frozen=True, slots=True)
class LagrangianSettings:
    """Costs that are held to a budget by multipliers; see ``upturn.training.advantages.lagrangian``."""

    budgets: Mapping[str, float]
    """By cost: how much of it an attempt may have on average."""
    rate: float = 0.1
    """η: by how much of what is above the budget a multiplier rises in an iteration."""
    most: float = 10.0
    """That a multiplier may be: ten times a whole task's reward for a cost of 1 outweighs anything."""

    def __post_init__(self) -> None:
        """Raises ConfigError."""
        refuse(
            None if self.budgets else "budgets must name at least one cost",
            *(
                unless(each, f"budgets[{name!r}]", "0 or more", is_not_negative)
                for name, each in self.budgets.items()
            ),
            unless(self.rate, "rate", "positive", is_positive),
            unless(self.most, "most", "positive", is_positive),
        )


@dataclass(frozen=True, slots=True)
class AdvantageSettings:
    """Which estimator gives turns their credit, and its options; see ``upturn.training.advantages``."""

    estimator: Estimator = "trajectory"
    gamma: float = 1.0
    """Discount per turn, in (0, 1]; 1 = a reward counts the same in every earlier turn. Not read by ``tree``."""
    baseline: Baseline = "group_mean"
    """``none`` leaves it to ``scale="whiten"`` to subtract the iteration's mean, as REINFORCE++ does."""
    scale: Scale = "none"
    """``std`` divides by the group's sample standard deviation, which favours nearly solved and nearly impossible
    tasks (Dr. GRPO, arXiv 2503.20783); it is not the default for that reason. ``mean`` divides by the group's mean
    return (MaxRL). ``batch_std`` divides by the standard deviation of all returns of the iteration (Lite-PPO),
    ``whiten`` gives the advantages of all written tokens of the iteration mean 0 and standard deviation 1."""
    turn_weight: float | None = None
    """ω: the advantage is A of ``trajectory``, with these gamma, baseline, scale and shaping, plus ω times that of
    the estimator. None = the estimator's alone, for ``state`` 1, which the method has built in."""
    anchor: Anchor = "state_hash"
    """For ``state``: what tells that two turns began in one state. ``observation`` takes the text that was seen for
    it, as the method's paper does, for environments that hash no state."""
    is_shaped: bool = False
    """True: rewards are shaped by the trajectories' potentials, as r + γΦ(s′) − Φ(s)."""
    error_probability: float | None = None
    """For ``divergence``: how often, at most, an attempt may be blamed or praised without cause; None = 0.05."""
    value_range: float | None = None
    """For ``divergence``: largest possible return minus smallest, penalties and the 0 after the end included; None
    = 1. Returns that are seen further apart are refused."""
    lagrangian: LagrangianSettings | None = None
    """Costs that are held to a budget; None = none is. Not where states are valued by continuations, whose returns
    know no multipliers."""

    def __post_init__(self) -> None:
        """Raises ConfigError."""
        chosen = f"with estimator={self.estimator!r}"
        baselines, scales = _BASELINES.get(self.estimator), _SCALES.get(self.estimator, _OWN_SCALES)
        refuse(
            unless(self.gamma, "gamma", "in (0, 1]", lambda value: 0 < value <= 1),
            unless_missing(self.turn_weight, "turn_weight", "positive or None", is_positive),
            unless_missing(self.error_probability, "error_probability", "in (0, 1)", lambda value: 0 < value < 1),
            unless_missing(self.value_range, "value_range", "positive", is_positive),
            _unknown(self.baseline, "baseline", baselines or ("group_mean",), chosen),
            _unknown(self.scale, "scale", scales, chosen),
            useless(
                self.estimator == "tree" and self.gamma != 1, f"gamma={self.gamma!r}", f"{chosen}; leave it at 1"
            ),
            useless(
                self.estimator == "trajectory" and self.turn_weight is not None,
                f"turn_weight={self.turn_weight!r}",
                f"{chosen}, which has no turn credit; choose another estimator or leave it out",
            ),
            useless(
                self.is_shaped and self.estimator not in _SHAPED,
                "is_shaped=True",
                f"{chosen}: potentials cancel out there; use it with {' or '.join(_SHAPED)}",
            ),
            useless(
                self.estimator != "state" and self.anchor != "state_hash",
                f"anchor={self.anchor!r}",
                f"{chosen}; it belongs to 'state'",
            ),
            *(
                useless(
                    self.estimator != "divergence" and value is not None,
                    f"{name}={value!r}",
                    f"{chosen}; it belongs to 'divergence'",
                )
                for name, value in (
                    ("error_probability", self.error_probability),
                    ("value_range", self.value_range),
                )
            ),
            self._combination(),
            self._constraint(),
        )

    def _combination(self) -> str | None:
        """The problem of baseline and scale together; None = none."""
        if self.baseline == "none" and self.scale != "whiten":
            return (
                f"baseline='none' with scale={self.scale!r} leaves every turn the raw return; "
                "set scale='whiten', which subtracts the iteration's mean, or another baseline"
            )
        if self.scale == "mean" and self.baseline != "group_mean":
            return f"scale='mean' divides by the baseline, so baseline={self.baseline!r} does not go with it"
        return None

    def _constraint(self) -> str | None:
        """The problem of budgets with something else; None = none."""
        if self.lagrangian is None:
            return None
        if self.estimator in _MEASURED:
            return (
                f"lagrangian does not go with estimator={self.estimator!r}: what continuations earn has no costs "
                "taken off; take another estimator, or cost_limits"
            )
        if self.scale == "mean":
            return "lagrangian does not go with scale='mean', which divides by returns that costs may make 0"
        return None


def _unknown(value: str, name: str, allowed: tuple[str, ...], chosen: str) -> str | None:
    if value in allowed:
        return None
    return f"{name}={value!r} would do nothing {chosen}; it takes {', '.join(repr(each) for each in allowed)}"
