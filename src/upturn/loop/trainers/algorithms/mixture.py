"""Mixture: GRPO with stored successes, pairs and ratings from the pool in the same optimiser steps."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from upturn.config import Config, default_value
from upturn.errors import ConfigError
from upturn.loop.evaluation import HeldoutResult
from upturn.loop.rollouts import PolicyWorker
from upturn.loop.run import Context
from upturn.loop.trainers.algorithms.dpo import load_pairs
from upturn.loop.trainers.algorithms.kto import load_ratings
from upturn.loop.trainers.algorithms.sft import take_training_snapshot
from upturn.loop.trainers.pool_data import render_demonstrations
from upturn.loop.trainers.registry import Algorithm
from upturn.loop.trainers.rl_training import RlSpec, RolloutSource, family_weights, rollout_spec, train_on_rollouts
from upturn.loop.trainers.training_plan import Plan, Workload, plan_on_rollouts, plan_on_rows, policy_overhead
from upturn.pool import find_snapshot, take_snapshot_of
from upturn.records import AgentVersion, PreferencePair, RatedTrajectory, Snapshot
from upturn.training import EpochSettings, PolicyGradientSettings, TrainingOutcome, TrainingRow, supervised_rows
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


def plan(context: Context, parent: AgentVersion) -> Plan:
    """Estimated cost of a run: of the rollouts, and of a step with each stored part in each iteration."""
    settings, policy = context.config.section(MixtureSettings), policy_settings(context.config)
    worker = PolicyWorker(context.runtime, parent, context.adapter, settings.optimiser)
    stored = [
        plan_on_rows(context, worker, "mixture", part_workload(part, settings.iterations))
        for part in load_parts(context, worker)
    ]
    spec, overhead = _spec(context, "mixture"), policy_overhead(policy)
    fresh = plan_on_rollouts(context, parent, "mixture", spec, passes=policy.passes, overhead=overhead)
    return replace(
        fresh,
        learns_from=", ".join(part.learns_from for part in (fresh, *stored)),
        rows=fresh.rows + sum(part.rows for part in stored),
        tokens=fresh.tokens + sum(part.tokens for part in stored),
        memory_bytes=max(part.memory_bytes for part in (fresh, *stored)),
        seconds=fresh.seconds + sum(part.seconds for part in stored),
    )


def train(context: Context, parent: AgentVersion, before: HeldoutResult, name: str) -> AgentVersion:
    """The trained version; families that failed more in ``before`` are sampled more."""
    parts: list[StoredPart] = []

    def extras(source: RolloutSource) -> dict[str, object]:
        parts.extend(load_parts(context, source.worker))
        return {"policy": policy_settings(context.config), "parts": parts}

    spec = _spec(context, name, family_weights(before))._replace(
        snapshot=lambda: take_joint_snapshot(context, parts)
    )
    return train_on_rollouts(context, parent, name, spec=spec, run=run_parts, extras=extras)


def _spec(context: Context, name: str, weights: Mapping[str, float] | None = None) -> RlSpec:
    settings, advantage = context.config.section(MixtureSettings), context.config.section(GrpoSettings).advantage
    rollouts = rollout_spec(context, name, settings.group_size, advantage=advantage, source=settings)
    return RlSpec("GRPO mixed with stored data", settings, rollouts, weights)


def check(config: Config) -> None:
    """Raises ConfigError where nothing is mixed with GRPO, or ``[grpo]`` has settings that cannot be mixed."""
    settings, grpo = config.section(MixtureSettings), config.section(GrpoSettings)
    if not (settings.sft or settings.dpo or settings.kto):
        raise ConfigError(
            ["mixture.sft, mixture.dpo and mixture.kto are all 0, so nothing is mixed; set one, or train grpo"]
        )
    if grpo.teacher is not None:
        raise ConfigError(
            [f"grpo.teacher ({grpo.teacher.model!r}) has no effect in a mixture; omit it, or train grpo with it"]
        )
    if grpo.dynamic_sampling is not None or grpo.staleness or grpo.partial is not None or grpo.cost_limits:
        raise ConfigError(
            [
                "a mixture samples in plain iterations: omit grpo.dynamic_sampling, staleness, partial and "
                "cost_limits, and presets that set them"
            ]
        )


def policy_settings(config: Config) -> PolicyGradientSettings:
    """Settings of GRPO's part, from ``[grpo]``."""
    grpo = config.section(GrpoSettings)
    return PolicyGradientSettings(
        minibatches=config.section(MixtureSettings).minibatches,
        passes=grpo.passes,
        objective=grpo.objective,
        advantage=grpo.advantage,
        mismatch=grpo.mismatch,
    )


class StoredPart(NamedTuple):
    """A part that trains on stored data."""

    kind: Literal["sft", "dpo", "kto"]
    data: Sequence[TrainingRow] | Sequence[PreferencePair] | Sequence[RatedTrajectory]
    """Rows, pairs or ratings."""
    settings: int | DpoSettings | KtoSettings
    """For ``sft`` the rows of a step."""
    weight: float
    snapshot: str
    """Id of the snapshot that the data is from."""


EpochsT = TypeVar("EpochsT", DpoSettings, KtoSettings)


def load_parts(context: Context, worker: PolicyWorker) -> list[StoredPart]:
    """The parts whose weight is not 0."""

    def without_run(section: EpochsT) -> EpochsT:
        """The section with default epochs, optimiser and evaluations: those of the mixture apply."""
        return replace(section, **{setting.name: default_value(setting) for setting in fields(EpochSettings)})

    config, parts = context.config, list[StoredPart]()
    weights = config.section(MixtureSettings)
    if weights.sft:
        snapshot = context.journal.record_step("snapshot", Snapshot, lambda: take_training_snapshot(context))
        rows = supervised_rows(render_demonstrations(context, snapshot, worker))
        parts.append(StoredPart("sft", rows, config.section(SftSettings).batch_rows, weights.sft, snapshot.id))
    if weights.dpo:
        pairs = load_pairs(context, worker)
        settings = without_run(config.section(DpoSettings))
        parts.append(StoredPart("dpo", pairs.pairs, settings, weights.dpo, pairs.snapshot))
    if weights.kto:
        ratings = load_ratings(context, worker)
        parts.append(
            StoredPart(
                "kto", ratings.ratings, without_run(config.section(KtoSettings)), weights.kto, ratings.snapshot
            )
        )
    return parts


def part_workload(part: StoredPart, iterations: int) -> Workload:
    """One step in each iteration."""
    data: Any = part.data  # of the part's kind, as its settings are
    settings: Any = part.settings
    match part.kind:
        case "sft":
            rows, batch, kind = data, settings, "verified successes"
        case "dpo":
            rows = supervised_rows(side for pair in data for side in (pair.chosen, pair.rejected))
            batch, kind = 2 * settings.batch_pairs, "pairs"
        case "kto":
            rows = supervised_rows(rating.trajectory for rating in data)
            batch, kind = settings.batch_trajectories, "rated trajectories"
    trained_rows = iterations * min(batch, len(rows))
    return Workload(rows, f"{len(data)} {kind}", iterations, "iteration", trained_rows, batch)


def run_parts(
    model: "PreTrainedModel",
    collect: Collect,
    settings: MixtureSettings,
    options: RunOptions,
    *,
    policy: PolicyGradientSettings,
    parts: Sequence[StoredPart],
) -> TrainingOutcome:
    """``run_mixture`` of GRPO and the stored parts."""
    from upturn.training.algorithms.mixture import (
        policy_part,
        preference_part,
        rating_part,
        run_mixture,
        supervised_part,
    )

    builders: Mapping[str, Callable[[Any, Any], Part]] = {
        "sft": supervised_part,
        "dpo": preference_part,
        "kto": rating_part,
    }
    stored = [replace(builders[part.kind](part.data, part.settings), weight=part.weight) for part in parts]
    return run_mixture(model, [policy_part(collect, policy), *stored], settings, options)


def take_joint_snapshot(context: Context, parts: Sequence[StoredPart]) -> str:
    """Id of a snapshot over those of all parts, or of the only part's."""
    snapshots = {part.kind: part.snapshot for part in parts}
    if len(snapshots) == 1:
        return parts[0].snapshot
    ids = [name for snapshot in snapshots.values() for name in find_snapshot(context.pool, snapshot).trajectory_ids]
    criteria = json.dumps({"snapshots": snapshots})
    return take_snapshot_of(context.pool, ids, tenant=context.tenant, criteria=criteria).id


MIXTURE = Algorithm(MixtureSettings, plan, train, frozenset({"pool", "rollouts", "rewards"}), check)
