"""GRPO with what the pool holds in the same optimiser steps: successes, pairs, ratings."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, assert_never

from upturn.config import Config, default_value
from upturn.errors import ConfigError
from upturn.loop.evaluation import HeldoutResult
from upturn.loop.rollouts import PolicyWorker
from upturn.loop.run import Context, continuations
from upturn.loop.trainers import dpo, kto
from upturn.loop.trainers.distributed_training import jointly
from upturn.loop.trainers.pool_data import needed_pool, rendered_demonstrations
from upturn.loop.trainers.registry import Algorithm
from upturn.loop.trainers.rl_training import Course, RolloutSource, family_weights, rollout_plan, train_on_rollouts
from upturn.loop.trainers.sft import take_training_snapshot
from upturn.loop.trainers.training_plan import Plan, Walk, held_by, practice_plan, rows_plan
from upturn.pool import find_snapshot, take_snapshot_of
from upturn.records import AgentVersion, PreferencePair, RatedTrajectory, Snapshot
from upturn.training import (
    EpochSettings,
    PolicyGradientSettings,
    TrainingOutcome,
    TrainingRow,
    supervised_rows,
)
from upturn.training.algorithms.dpo import DpoSettings
from upturn.training.algorithms.grpo import GrpoSettings
from upturn.training.algorithms.kto import KtoSettings
from upturn.training.algorithms.mixture import MixtureSettings
from upturn.training.algorithms.sft import SftSettings
from upturn.training.data import Collect
from upturn.training.runs import RunOptions

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from upturn.training.algorithms.mixture import Part


def settings(config: Config) -> MixtureSettings:
    """``[mixture]``. Raises ConfigError where nothing is mixed with GRPO, or GRPO cannot be mixed."""
    section, own = config.section(MixtureSettings), config.section(GrpoSettings)
    if not (section.sft or section.dpo or section.kto):
        raise ConfigError(
            ["mixture.sft, mixture.dpo and mixture.kto are all 0, so nothing is mixed; set one, or train grpo"]
        )
    if own.dynamic_sampling is not None or own.staleness or own.cost_limits:
        raise ConfigError(
            [
                "a mixture samples in plain iterations: leave out grpo.dynamic_sampling, staleness and "
                "cost_limits, "
                "and presets that set them"
            ]
        )
    return section


def policy(config: Config) -> PolicyGradientSettings:
    """How GRPO's part learns: objective, advantage and mismatch of ``[grpo]``."""
    own = config.section(GrpoSettings)
    return PolicyGradientSettings(
        minibatches=config.section(MixtureSettings).minibatches,
        passes=own.passes,
        objective=own.objective,
        advantage=own.advantage,
        mismatch=own.mismatch,
    )


def plan(context: Context, parent: AgentVersion) -> Plan:
    """What practice and the pool's parts would take, of which each has a step in a round."""
    rounds, asked = settings(context.config).iterations, policy(context.config)
    needed_pool(context, "mixture")
    beside = _beside(context, parent, rounds)
    course = _course(context, dict.fromkeys(context.trained_families, 1.0), "mixture")
    own = practice_plan(context, parent, "mixture", course=course, passes=asked.passes, held=held_by(asked))
    return replace(
        own,
        learns_from=f"{own.learns_from}; beside them {', '.join(each.learns_from for each in beside)}",
        rows=own.rows + sum(each.rows for each in beside),
        tokens=own.tokens + sum(each.tokens for each in beside),
        memory_bytes=max(each.memory_bytes for each in (own, *beside)),
        seconds=own.seconds + sum(each.seconds for each in beside),
    )


def _beside(context: Context, parent: AgentVersion, rounds: int) -> list[Plan]:
    """Of each part that the pool gives."""
    worker = PolicyWorker(context.runtime, parent, context.adapter)
    stored = stored_parts(context, worker)
    return [rows_plan(context, worker, "mixture", walk_of(each, rounds)) for each in stored]


def walk_of(stored: "Stored", rounds: int) -> Walk:
    """What so many rounds go through of a part: a step each."""
    evidence: Any = stored.evidence  # of the kind that the part names, as its settings are
    own: Any = stored.settings
    match stored.part:
        case "sft":
            rows, batch, kind = list(evidence), own, "verified successes"
        case "dpo":
            rows = list(supervised_rows([side for pair in evidence for side in (pair.chosen, pair.rejected)]))
            batch, kind = 2 * own.batch_pairs, "pairs"
        case "kto":
            rows = list(supervised_rows([each.trajectory for each in evidence]))
            batch, kind = own.batch_trajectories, "rated attempts"
        case never:
            assert_never(never)
    taken = rounds * min(batch, len(rows))
    return Walk(rows, f"{len(evidence)} {kind}", rounds, "iteration", taken, batch)


def train(context: Context, parent: AgentVersion, before: HeldoutResult, name: str) -> AgentVersion:
    """The version trained on all of it; families are sampled by what it failed before."""
    needed_pool(context, "mixture")
    asked, practice = settings(context.config), policy(context.config)
    stored = list[Stored]()

    def learn(own: RolloutSource) -> TrainingOutcome:
        stored.extend(stored_parts(context, own.worker))
        return jointly(
            context.world,
            own.worker,
            run_mixed,
            own.collect,
            stored,
            Mixed(asked, practice),
            RunOptions(context.seed, own.folder, evaluate=own.evaluate, progress=own.progress),
        )

    course = _course(context, family_weights(before), name)._replace(snapshot=lambda: learned_from(context, stored))
    return train_on_rollouts(context, parent, name, course=course, learn=learn)


class Mixed(NamedTuple):
    """How practice is mixed."""

    run: MixtureSettings
    practice: PolicyGradientSettings


class Stored(NamedTuple):
    """What the pool gives to a mixture."""

    part: Literal["sft", "dpo", "kto"]
    evidence: Sequence[TrainingRow] | Sequence[PreferencePair] | Sequence[RatedTrajectory]
    """Rows, pairs or rated attempts, as the part has them."""
    settings: int | DpoSettings | KtoSettings
    """Of ``sft`` the rows of a step."""
    weight: float
    snapshot: str
    """Id of that of the attempts."""


def run_mixed(  # noqa: PLR0917  # in the order of every run
    model: "PreTrainedModel", collect: Collect, stored: Sequence[Stored], settings: Mixed, options: RunOptions
) -> TrainingOutcome:
    """``run_mixture`` of GRPO and what is stored."""
    from upturn.training.algorithms.mixture import policy_part, run_mixture

    parts = [policy_part(collect, settings.practice), *map(_part, stored)]
    return run_mixture(model, parts, settings.run, options)


def _part(stored: Stored) -> "Part":
    from upturn.training.algorithms.mixture import preference_part, rating_part, supervised_part

    evidence: Any = stored.evidence  # of the kind that the part names, as its settings are
    own: Any = stored.settings
    match stored.part:
        case "sft":
            part = supervised_part(evidence, own)
        case "dpo":
            part = preference_part(evidence, own)
        case "kto":
            part = rating_part(evidence, own)
        case never:
            assert_never(never)
    return replace(part, weight=stored.weight)


PartSettings = TypeVar("PartSettings", DpoSettings, KtoSettings)


def without_run(section: PartSettings) -> PartSettings:
    """The section with the usual epochs, optimiser and evaluations, which are the mixture's own."""
    usual = {each.name: default_value(each) for each in fields(EpochSettings)}
    return replace(section, **usual)


def stored_parts(context: Context, worker: PolicyWorker) -> list[Stored]:
    """What the pool gives."""
    config, stored = context.config, list[Stored]()
    weights = config.section(MixtureSettings)
    if weights.sft:
        snapshot = context.journal.record_step("snapshot", Snapshot, lambda: take_training_snapshot(context))
        rows = supervised_rows(rendered_demonstrations(context, snapshot, worker))
        stored.append(Stored("sft", rows, config.section(SftSettings).batch_rows, weights.sft, snapshot.id))
    if weights.dpo:
        pairs = without_run(config.section(DpoSettings))
        ends = dpo.frozen_pairs(context, worker)
        found = dpo.pairs_in(context, worker, ends)
        stored.append(Stored("dpo", found, pairs, weights.dpo, ends.snapshot))
    if weights.kto:
        rating = without_run(config.section(KtoSettings))
        thumbs = kto.frozen_thumbs(context, worker)
        rated = kto.rated_in(context, worker, thumbs)
        stored.append(Stored("kto", rated, rating, weights.kto, thumbs.snapshot))
    return stored


def learned_from(context: Context, stored: Sequence[Stored]) -> str:
    """Id of the snapshot of all that the pool gave: that of the one part, or one over those of several."""
    parts = {each.part: each.snapshot for each in stored}
    if len(parts) == 1:
        return next(iter(parts.values()))
    names = [name for part in parts.values() for name in find_snapshot(context.pool, part).trajectory_ids]
    criteria = json.dumps({"snapshots": parts})
    return take_snapshot_of(context.pool, names, tenant=context.tenant, criteria=criteria).id


def _course(context: Context, weights: Mapping[str, float], name: str) -> Course:
    section, asked = context.config.section(MixtureSettings), policy(context.config)
    practice = replace(
        rollout_plan(context, name, section.group_size),
        continuations=continuations(asked.advantage),
        gamma=asked.advantage.gamma,
    )
    return Course("GRPO mixed with what the pool holds", section, weights, practice)


MIXTURE = Algorithm(MixtureSettings, plan, train, frozenset({"pool", "rollouts", "rewards"}), settings)
