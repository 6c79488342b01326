"""The configured policy gradient: a preset, and what the configuration changes in it. No torch here."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any, TypeVar

from upturn.config import Config, Section
from upturn.errors import ConfigError
from upturn.loop.run.settings import optimiser
from upturn.training import (
    DynamicSamplingSettings,
    GrpoSettings,
    KlSettings,
    MismatchSettings,
    ObjectiveSettings,
    is_ratio_one,
)
from upturn.training.advantages import AdvantageSettings, LagrangianSettings, advantage_of
from upturn.training.algorithms import preset

Made = TypeVar("Made")
CONTINUATIONS = 8
"""Of each state, where the configuration does not say: about VinePPO's 9."""


def algorithm_settings(config: Config) -> GrpoSettings:
    """What ``[grpo]`` asks for. Raises ConfigError with all problems at once, each naming its section.

    Iterations, learning rate and when to stop are always the configuration's own; a preset decides the rest, unless
    ``minibatches``, ``grpo.algorithm`` or ``grpo.advantage`` say something else.
    """
    grpo, problems = config.grpo, list[str]()
    base = GrpoSettings() if grpo.preset is None else preset(grpo.preset)
    own = grpo.algorithm
    minibatches = base.minibatches if grpo.minibatches is None else grpo.minibatches
    passes = base.passes if own.passes is None else own.passes
    mismatch = _made("grpo.algorithm", problems, lambda: _mismatch(config))
    if is_ratio_one(minibatches, passes, mismatch):
        base = _without_clips(base)
    objective = _made("grpo.algorithm", problems, lambda: _objective(base.objective, config))
    advantage = _made("grpo.advantage", problems, lambda: _advantage(base.advantage, config))
    found = _made(
        "grpo",
        problems,
        lambda: replace(
            base,
            iterations=grpo.iterations,
            minibatches=minibatches,
            passes=passes,
            objective=objective or base.objective,
            advantage=advantage or base.advantage,
            mismatch=mismatch,
            dynamic_sampling=_sampling(base.dynamic_sampling, own.sampling_rounds),
            optimiser=optimiser(config, grpo.learning_rate),
            decay=grpo.decay,
            evaluate_every=grpo.evaluate_every,
            target_score=grpo.target_score,
            patience=grpo.patience,
            cost_limits=base.cost_limits if own.cost_limits is None else own.cost_limits,
        ),
    )
    if found is not None and grpo.attempts < 2 and _compares(found.advantage):
        problems.append(
            f"grpo: attempts={grpo.attempts!r} leaves advantage.estimator={found.advantage.estimator!r} nothing to "
            "compare, so that no attempt would teach anything; set attempts = 2 or more, or take preset = "
            "'reinforce_pp', or estimator = 'monte_carlo' or 'divergence' without turn_weight"
        )
    if found is not None and found.dynamic_sampling is not None and own.staleness:
        problems.append(
            f"grpo.algorithm: staleness={own.staleness!r} samples with earlier weights, dynamic sampling "
            f"(sampling_rounds={found.dynamic_sampling.max_rounds!r}) draws more with the present ones; "
            "set staleness = 0 or sampling_rounds = 1"
        )
    if problems or found is None:
        raise ConfigError(problems)
    return found


def _compares(advantage: AdvantageSettings) -> bool:
    """True when an attempt's credit, or a part of it, comes from other attempts at its task."""
    measures_alone = advantage.estimator in {"monte_carlo", "divergence"} and advantage.turn_weight is None
    return not (measures_alone or (advantage.estimator == "trajectory" and advantage.baseline == "none"))


def continuations(config: Config, settings: GrpoSettings) -> int:
    """From each state of each attempt, to measure its value; 0 where the estimator needs no values."""
    if "state_values" not in advantage_of(settings.advantage).needs:
        return 0
    return config.grpo.advantage.continuations or CONTINUATIONS


def _made(where: str, problems: list[str], make: Callable[[], Made]) -> Made | None:
    """What ``make`` makes; None after adding its problems, with where they lie, to ``problems``."""
    try:
        return make()
    except ConfigError as exc:
        problems += (f"{where}: {problem}" for problem in exc.problems)
        return None


def _chosen(section: Section) -> dict[str, Any]:
    """The fields that say something: neither left out nor sections themselves."""
    values = {name: getattr(section, name) for name in type(section).model_fields}
    return {name: value for name, value in values.items() if value is not None and not isinstance(value, Section)}


def _without_clips(base: GrpoSettings) -> GrpoSettings:
    """The same where every ratio is 1: a preset's clips, which nobody chose here, say nothing there."""
    return replace(base, objective=replace(base.objective, clip_low=None, clip_high=None))


def _objective(base: ObjectiveSettings, config: Config) -> ObjectiveSettings:
    own = config.grpo.algorithm
    changes = _chosen(own)
    for name in ("passes", "sampling_rounds", "staleness", "cost_limits"):
        changes.pop(name, None)
    if changes.get("aggregation", base.aggregation) == "constant":
        limits = config.environment
        changes.setdefault("constant_tokens", limits.max_turns * limits.max_action_tokens)
    elif "aggregation" in changes and "constant_tokens" not in changes:
        changes["constant_tokens"] = None
    return replace(base, **changes, kl=_kl(base.kl, _chosen(own.kl)))


def _advantage(base: AdvantageSettings, config: Config) -> AdvantageSettings:
    changes = _chosen(config.grpo.advantage)
    count = changes.pop("continuations", None)
    budgets, rate = changes.pop("cost_budgets", None), changes.pop("multiplier_rate", None)
    if rate is not None and not budgets:
        raise ConfigError(["multiplier_rate would do nothing without cost_budgets; set them, or leave it out"])
    if budgets:
        changes["lagrangian"] = LagrangianSettings(budgets, **({} if rate is None else {"rate": rate}))
    found = replace(base, **changes)
    if count is not None and "state_values" not in advantage_of(found).needs:
        raise ConfigError(
            [
                f"continuations={count!r} would do nothing with estimator={found.estimator!r}, which needs no "
                "values of states; leave it out, or choose 'monte_carlo' or 'divergence'"
            ]
        )
    return found


def _sampling(base: DynamicSamplingSettings | None, rounds: int | None) -> DynamicSamplingSettings | None:
    """``rounds``: None = as ``base`` has it."""
    if rounds is None:
        return base
    return DynamicSamplingSettings(max_rounds=rounds) if rounds > 1 else None


def _kl(base: KlSettings | None, changes: Mapping[str, Any]) -> KlSettings | None:
    coefficient = changes.get("coefficient", base.coefficient if base else 0.0)
    others = [f"kl.{name}" for name in changes if name != "coefficient"]
    if coefficient == 0:
        if others:
            raise ConfigError([f"{' and '.join(others)} would do nothing without kl.coefficient; set it"])
        return None
    return KlSettings(**{**(asdict(base) if base else {}), **changes})


def _mismatch(config: Config) -> MismatchSettings | None:
    """None where nothing is recomputed; no preset does."""
    own = config.grpo.algorithm.mismatch
    changes = _chosen(own)
    if changes.pop("recompute"):
        return MismatchSettings(**changes)
    useless = [f"mismatch.{name}" for name, value in changes.items() if value != "none"]
    if useless:
        raise ConfigError(
            [f"{' and '.join(useless)} would do nothing with mismatch.recompute = false; set it to true"]
        )
    return None
