"""What a section of the configuration asks of an algorithm. No torch here."""

from collections.abc import Callable
from typing import TypedDict, TypeVar

from upturn.config import Config, CriticConfig, CurriculumConfig, LevelConfig, PairConfig, RoundsConfig
from upturn.errors import ConfigError
from upturn.training import (
    AdapterSettings,
    CriticSettings,
    CurriculumSettings,
    GateSettings,
    LevelSettings,
    OptimiserSettings,
    PairObjectiveSettings,
)

Made = TypeVar("Made")


class Watch(TypedDict):
    """When rounds are evaluated and stop; the same names in all settings."""

    evaluate_every: int | None
    target_score: float | None
    patience: int | None


def made(section: str, make: Callable[[], Made]) -> Made:
    """What ``make`` makes; problems are told with the section that they lie in."""
    try:
        return make()
    except ConfigError as exc:
        raise ConfigError([f"{section}: {problem}" for problem in exc.problems]) from exc


def watch(section: RoundsConfig) -> Watch:
    """As the section says."""
    return Watch(
        evaluate_every=section.evaluate_every, target_score=section.target_score, patience=section.patience
    )


def optimiser(config: Config, learning_rate: float, *, warmup_steps: int = 0) -> OptimiserSettings:
    """What ``[optimiser]`` asks for, at this rate."""
    section = config.optimiser
    return made(
        "optimiser",
        lambda: OptimiserSettings(
            learning_rate=learning_rate,
            warmup_steps=warmup_steps,
            weight_decay=section.weight_decay,
            max_grad_norm=section.max_grad_norm,
            micro_batch_tokens=section.micro_batch_tokens,
            precision=section.precision,
            gradient_checkpointing=section.gradient_checkpointing,
        ),
    )


def adapter_settings(config: Config, *, seed: int) -> AdapterSettings | None:
    """What ``[lora]`` asks for, drawn from this seed; None = whole models are trained."""
    section = config.lora
    if not section.rank:
        return None
    return AdapterSettings(section.rank, section.alpha, section.targets, seed)


def pair_objective(section: PairConfig) -> PairObjectiveSettings:
    """The loss of pairs."""
    return PairObjectiveSettings(
        kind=section.kind,
        beta=section.beta,
        label_smoothing=section.label_smoothing,
        is_length_normalised=section.is_length_normalised,
        sft_coefficient=section.sft_coefficient,
    )


def critic_settings(section: CriticConfig) -> CriticSettings:
    """How values are learned."""
    return CriticSettings(
        learning_rate=section.learning_rate,
        minibatches=section.minibatches,
        passes=section.passes,
        alone_iterations=section.alone_iterations,
        value_clip=section.value_clip,
    )


def curriculum_settings(section: CurriculumConfig) -> CurriculumSettings | None:
    """None = families are practised by what they failed before, to the end."""
    if section.policy is None:
        return None
    gate = section.gate
    return made(
        "curriculum",
        lambda: CurriculumSettings(
            policy=section.policy or "levels",
            window=section.window,
            min_attempts=section.min_attempts,
            gate=GateSettings(gate.low, gate.high, gate.probe_share) if section.is_gated else None,
            levels=_levels(section.levels) if section.policy == "levels" else None,
        ),
    )


def _levels(section: LevelConfig) -> LevelSettings:
    mix = section.final_mix
    return LevelSettings(
        section.advance_at,
        section.ahead_share,
        section.easier_share,
        section.max_drop,
        None if mix is None else {int(level): share for level, share in mix.items()},
    )
