"""Practice with what the pool holds in the same optimiser steps: successes, pairs, thumbs."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from upturn.config import Config
from upturn.errors import ConfigError
from upturn.loop.algorithm import algorithm_settings, continuations
from upturn.loop.context import Context
from upturn.loop.exam import ExamResult
from upturn.loop.lessons import dpo, kto
from upturn.loop.lessons.evidence import needed_pool
from upturn.loop.plan import Plan, practice_plan
from upturn.loop.practice import Course, Practising, practice_of, practice_weights, practised
from upturn.loop.settings import made, optimiser, watch
from upturn.loop.trainee import Trainee
from upturn.loop.training import demonstrations_in, take_training_snapshot, with_rows
from upturn.records import AgentVersion, Snapshot
from upturn.training.mixture_settings import MixtureSettings
from upturn.training.outcome import TrainingOutcome
from upturn.training.preference_settings import DpoSettings, KtoSettings
from upturn.training.row import supervised_rows
from upturn.training.settings import GrpoSettings

if TYPE_CHECKING:
    from upturn.training.mixture import Part


def settings(config: Config) -> MixtureSettings:
    """What ``[mixture]`` asks for. Raises ConfigError, also where nothing is mixed with practice."""
    section = config.mixture
    if not (section.sft or section.dpo or section.kto):
        raise ConfigError(
            ["mixture.sft, mixture.dpo and mixture.kto are all 0, so nothing is mixed; set one, or train grpo"]
        )
    return made(
        "mixture",
        lambda: MixtureSettings(
            units=section.iterations,
            optimiser=optimiser(config, section.learning_rate),
            decay=section.decay,
            **watch(section),
        ),
    )


def policy(config: Config) -> GrpoSettings:
    """How practice learns: objective, advantage and mismatch as for ``grpo``. Raises ConfigError."""
    own = algorithm_settings(config)
    if own.dynamic_sampling is not None or config.grpo.algorithm.staleness or own.cost_limits:
        raise ConfigError(
            [
                "a mixture practises in plain rounds: leave out grpo.algorithm.sampling_rounds, staleness and "
                "cost_limits, and presets that set them"
            ]
        )
    return GrpoSettings(
        minibatches=config.mixture.minibatches,
        passes=own.passes,
        objective=own.objective,
        advantage=own.advantage,
        mismatch=own.mismatch,
    )


def plan(context: Context, parent: AgentVersion) -> Plan:
    """What practice would take; the pool's parts come on top, a step each in a round."""
    settings(context.config)
    needed_pool(context, "mixture")
    asked = policy(context.config)
    course = _course(context, dict.fromkeys(context.practised, 1.0), "mixture")
    return practice_plan(context, parent, "mixture", course=course, passes=asked.passes)


def train(context: Context, parent: AgentVersion, before: ExamResult, name: str) -> AgentVersion:
    """The version that learned from all of it; families are practised by what it failed before."""
    from upturn.training.mixture import run_mixture
    from upturn.training.mixture_parts import policy_part

    needed_pool(context, "mixture")
    asked, practice = settings(context.config), policy(context.config)

    def learn(own: Practising) -> TrainingOutcome:
        parts = [policy_part(own.collect, practice), *_stored(context, own.trainee)]
        return run_mixture(
            own.trainee.model,
            parts,
            asked,
            seed=context.seed,
            run_dir=own.folder,
            evaluate=own.evaluate,
            progress=own.progress,
        )

    course = _course(context, practice_weights(before), name)
    return practised(context, parent, name, course=course, learn=learn)


def _stored(context: Context, trainee: Trainee) -> Iterator["Part"]:
    """The parts that the pool gives."""
    from upturn.training.mixture_parts import preference_part, rating_part, supervised_part

    config = context.config
    if config.mixture.sft:
        snapshot = context.journal.record_step("snapshot", Snapshot, lambda: take_training_snapshot(context))
        found = demonstrations_in(context, snapshot)
        rows = supervised_rows([with_rows(each, trainee.renderer, trainee.version.prompt) for each in found])
        yield replace(supervised_part(rows, config.sft.batch_rows), weight=config.mixture.sft)
    if config.mixture.dpo:
        own = dpo.settings(config)
        pairs = DpoSettings(batch_pairs=own.batch_pairs, objective=own.objective, reference=own.reference)
        part = preference_part(dpo.stored_pairs(context, trainee), pairs)
        yield replace(part, weight=config.mixture.dpo)
    if config.mixture.kto:
        told = kto.settings(config)
        rating = KtoSettings(
            batch_trajectories=told.batch_trajectories,
            beta=told.beta,
            desirable_weight=told.desirable_weight,
            undesirable_weight=told.undesirable_weight,
        )
        yield replace(rating_part(kto.rated(context, trainee), rating), weight=config.mixture.kto)


def _course(context: Context, weights: Mapping[str, float], name: str) -> Course:
    section, asked = context.config.mixture, policy(context.config)
    practice = replace(
        practice_of(context, name, section.attempts),
        continuations=continuations(context.config, asked),
        gamma=asked.advantage.gamma,
    )
    return Course("Practice, mixed with what the pool holds", section, weights, practice)
