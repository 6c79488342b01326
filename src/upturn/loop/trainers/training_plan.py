"""The plan of a training run (``--dry-run``): its size is counted, its cost measured on a small probe.

A probe samples a few tasks with the version to be trained, stores nothing, and scores what was written: a step
forward and back takes about three times as long. Figures hold for this machine and its present load.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from upturn.config import OptimiserSettings
from upturn.errors import TrainingError
from upturn.loop.agent_runtime import SLOTS
from upturn.loop.evaluation import heldout_tasks, selection_tasks
from upturn.loop.rollouts import PolicyWorker, RolloutSpec, TaskSampler, count_tokens_after_states
from upturn.loop.run import Context
from upturn.loop.trainers.rl_training import RlSpec
from upturn.records import AgentVersion, Evaluation, Result, Task, Trajectory, record
from upturn.training import IterationSettings, PolicyGradientSettings, TrainingRow, policy_rows, written_count
from upturn.training.optimisation import Memory, estimate_memory, model_shape

PROBE_TRAJECTORIES = 48
"""Maximum number of trajectories in a probe."""
BACKWARD = 3.0
"""Cost of a step forward and back, in passes forward."""
RECOMPUTATION = 1.0
"""Added to it with gradient checkpointing, which computes activations again."""
PROBE_ROWS = 64
"""Rows that are scored to measure the time of a step."""


@record
class Plan:
    """Size and estimated cost of a run."""

    algorithm: str
    learns_from: str
    """Description of the training data."""
    units: int
    unit: str
    rows: int
    """Sequences trained on in all units."""
    tokens: int
    """Tokens in them, prompts included."""
    memory_bytes: int
    seconds: float
    basis: str
    """Description of how the figures were obtained."""
    continued_tokens: int = 0
    """Written by continuations that measure states, in addition to ``tokens``; 0 means that none are measured."""

    def results(self) -> list[Result]:
        """The figures that a command prints."""
        continued = [Result("continued_tokens", float(self.continued_tokens))] if self.continued_tokens else []
        return [
            Result(f"{self.unit}s", float(self.units)),
            Result("rows", float(self.rows)),
            Result("tokens", float(self.tokens)),
            *continued,
            Result("memory", self.memory_bytes / 1e9, "GB"),
            Result("time", self.seconds, "s"),
        ]


class Cost(NamedTuple):
    """Mean cost of one trajectory, or of one row."""

    tokens: float
    written: float
    sampling_seconds: float
    """0 where nothing is sampled."""
    update_seconds: float
    longest: int
    """Tokens of the longest row."""
    continued: float = 0.0
    """Tokens written by one continuation from each of its states, with shared states counted once; 0 where no state
    is measured."""


@dataclass(frozen=True, slots=True)
class Overhead:
    """What a run holds in memory and computes in addition to the updates of its model."""

    copies: int = 0
    """Untrained copies of the model: a reference, or the initial weights. The best weights of a run on rollouts and
    the engine's copy are counted anyway."""
    critics: int = 0
    """Trained copies of the model."""
    scorings: float = 0.0
    """Forward passes over a row for each time that it is trained on: by a reference, or by the model before it
    changes. A pass for several epochs counts in part."""
    trainings: int = 1
    """Repetitions of the whole training, with other seeds or rewards."""
    heldout_evaluations: int = 2
    """On all held-out tasks."""
    rollouts: int = 0
    """Further trajectories that are not trained on."""


def policy_overhead(settings: PolicyGradientSettings, *, copies: int = 0) -> Overhead:
    """The overhead of a policy gradient with further ``copies``."""
    references = int(settings.objective.kl is not None)
    return Overhead(copies=copies + references, scorings=references + int(settings.mismatch is not None))


class Workload(NamedTuple):
    """Training on existing rows."""

    rows: Sequence[TrainingRow]
    description: str
    """Their number and kind, such as ``36 pairs``."""
    units: int
    unit: str
    trained_rows: int
    """Rows trained on in all units."""
    batch_rows: int
    """Rows in one optimiser step."""


def epoch_workload(rows: Sequence[TrainingRow], description: str, *, epochs: int, batch_rows: int) -> Workload:
    """Passes over all rows in batches."""
    steps = epochs * -(-len(rows) // batch_rows)
    return Workload(rows, description, steps, "optimiser step", epochs * len(rows), batch_rows)


def plan_on_rollouts(
    context: Context,
    parent: AgentVersion,
    algorithm: str,
    spec: RlSpec,
    *,
    passes: int = 1,
    overhead: Overhead = Overhead(),  # frozen
) -> Plan:
    """The plan of a run on fresh rollouts; ``passes``: how often each trajectory is trained on."""
    settings, rollouts = spec.settings, spec.rollouts
    worker = PolicyWorker(context.runtime, parent, context.adapter, settings.optimiser)
    sampler = TaskSampler(
        context.kit, spec.family_shares(context), settings.tasks_per_iteration, seed=rollouts.seed
    )
    group_size = min(rollouts.group_size, PROBE_TRAJECTORIES)
    tasks = (spec.tasks or sampler.tasks)(0)[: max(1, PROBE_TRAJECTORIES // group_size)]
    cost = measure_rollouts(worker, tasks, replace(rollouts, group_size=group_size), settings.optimiser)
    concurrent = settings.tasks_per_iteration * rollouts.group_size
    rows = overhead.trainings * settings.iterations * concurrent
    continued = rows * rollouts.continuations * cost.continued
    evaluated = overhead.heldout_evaluations * len(heldout_tasks(context))
    if settings.evaluate_every is not None:
        evaluated += overhead.trainings * evaluation_count(settings) * len(selection_tasks(context).tasks)
        overhead = replace(overhead, copies=overhead.copies + 1)
    sampled = rows + continued / max(cost.written, 1.0) + evaluated + overhead.rollouts
    steps = passes * (1 + overhead.critics) + overhead.scorings / BACKWARD
    return Plan(
        algorithm,
        f"{rollouts.group_size} fresh trajector{'ies' if rollouts.group_size > 1 else 'y'} of each of "
        f"{settings.tasks_per_iteration} tasks per iteration",
        overhead.trainings * settings.iterations,
        "iteration",
        rows,
        round(rows * cost.tokens),
        _memory(
            worker, cost, settings.optimiser, overhead=overhead, batch_rows=concurrent, sampled=concurrent
        ).total,
        sampled * cost.sampling_seconds + rows * cost.update_seconds * steps,
        f"a probe of {len(tasks) * group_size} trajectories on this machine under its present load",
        round(continued),
    )


def evaluation_count(settings: IterationSettings) -> int:
    """Number of evaluations of a run in iterations: before it, when one is due, and at its end."""
    if settings.evaluate_every is None:
        return 0
    due, rest = divmod(settings.iterations, settings.evaluate_every)
    return 1 + due + int(rest > 0)


def plan_on_rows(
    context: Context,
    worker: PolicyWorker,
    algorithm: str,
    work: Workload,
    *,
    overhead: Overhead = Overhead(),  # frozen
) -> Plan:
    """The plan of a run on existing rows, without its evaluations."""
    settings = context.config.optimiser
    cost = measure_update(worker, work.rows, settings)
    mean = sum(len(row.token_ids) for row in work.rows) / len(work.rows)
    return Plan(
        algorithm,
        f"{work.description} from the pool",
        work.units,
        work.unit,
        work.trained_rows,
        round(work.trained_rows * mean),
        _memory(worker, cost, settings, overhead=overhead, batch_rows=work.batch_rows).total,
        work.trained_rows * cost.update_seconds * (1 + overhead.scorings / BACKWARD),
        "the rows, and a probe of the time of a pass over some of them on this machine; without evaluations",
    )


def measure_rollouts(
    worker: PolicyWorker, tasks: Sequence[Task], rollouts: RolloutSpec, settings: OptimiserSettings
) -> Cost:
    """Mean cost of a trajectory; nothing is stored."""
    started = time.perf_counter()
    probe = replace(rollouts, run=f"{rollouts.run}/probe", continuations=0)
    groups = worker.sample_groups(tasks, 0, probe, _NullSink())
    sampling = time.perf_counter() - started
    trajectories = [member.trajectory for group in groups for member in group.members]
    count = len(trajectories)
    rows = [
        row
        for trajectory in trajectories
        if trajectory.rows
        for row in policy_rows(trajectory, (0.0,) * len(trajectory.turns))
    ]
    cost = measure_update(worker, rows, settings)
    return Cost(
        sum(len(row.token_ids) for row in rows) / count,
        sum(map(written_count, trajectories)) / count,
        sampling / count,
        cost.update_seconds * len(rows) / count,
        cost.longest,
        count_tokens_after_states(worker.runtime, groups) / count if rollouts.continuations else 0.0,
    )


def measure_update(worker: PolicyWorker, rows: Sequence[TrainingRow], settings: OptimiserSettings) -> Cost:
    """Mean cost of training on a row; nothing is trained. Raises TrainingError without a row."""
    from upturn.training.optimisation import Trainer

    sample = list(rows[:PROBE_ROWS])
    if not sample:
        raise TrainingError(
            f"there is no row of tokens to train {worker.version.id!r} on, so a plan cannot be measured; check how "
            "its trajectories end, or use a pool with trajectories that its renderer can write"
        )
    trainer = Trainer(worker.model, settings)
    trainer.score(sample)  # the first pass also compares tree attention with padded attention
    started = time.perf_counter()
    trainer.score(sample)
    seconds = (time.perf_counter() - started) / len(sample)
    return Cost(
        sum(len(row.token_ids) for row in sample) / len(sample),
        sum(len(row.positions) for row in sample) / len(sample),
        0.0,
        (BACKWARD + (RECOMPUTATION if settings.gradient_checkpointing == "full" else 0.0)) * seconds,
        max(len(row.token_ids) for row in rows),
    )


def _memory(
    worker: PolicyWorker,
    cost: Cost,
    settings: OptimiserSettings,
    *,
    overhead: Overhead,
    batch_rows: int,
    sampled: int = 0,
) -> Memory:
    """Upper bound: shared prefixes are computed once and take less. ``sampled``: concurrent rollouts."""
    copies = overhead.copies + 1
    tokens = max(cost.longest, min(settings.micro_batch_tokens, round(batch_rows * cost.tokens)))
    policy = estimate_memory(
        model_shape(worker.model),
        micro_batch_tokens=tokens,
        written_tokens=round(tokens * cost.written / max(cost.tokens, 1.0)),
        is_checkpointed=settings.gradient_checkpointing == "full",
        copies=copies,
        cached_tokens=min(sampled, SLOTS) * cost.longest,
    )
    critics = overhead.critics * (policy.optimiser + policy.weights // (1 + copies))
    return replace(policy, optimiser=policy.optimiser + critics)


class _NullSink:
    """Stores nothing."""

    def append(self, run: str, iteration: int, finished: Sequence[tuple[Task, Trajectory, Evaluation]]) -> None:
        """Does nothing."""
