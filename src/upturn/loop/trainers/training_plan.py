"""The plan of a training run (``--dry-run``): its size is counted, its cost measured on a small probe.

A probe samples a few tasks with the version to be trained, stores nothing, and scores what was written: a step
forward and back takes about three times as long. Figures hold for this machine and its present load.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from upturn.config import DEFAULT_CONTEXT_TOKENS, OptimiserSettings
from upturn.errors import TrainingError
from upturn.loop.agent_runtime import SLOTS
from upturn.loop.evaluation import heldout_tasks, selection_tasks
from upturn.loop.rollouts import PolicyWorker, RolloutSpec, TaskSampler, count_tokens_after_states
from upturn.loop.run import Context
from upturn.loop.trainers.rl_training import RlSpec
from upturn.records import AgentVersion, Evaluation, Result, Task, Trajectory, record
from upturn.training import IterationSettings, PolicyGradientSettings, TrainingRow, policy_rows, written_count
from upturn.training.optimisation import DEFAULT_RANK, Load, Memory, estimate_memory, memory_choices, model_shape

PROBE_TRAJECTORIES = 48
"""Maximum number of trajectories in a probe."""
BACKWARD = 3.0
"""Cost of a step forward and back, in passes forward."""
RECOMPUTATION = {"none": 0.0, "half": 0.5, "full": 1.0}
"""Added to it by gradient checkpointing, which computes activations again."""
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
    memory_choices: Mapping[str, int] = field(default_factory=dict)
    """``memory_bytes`` with other settings of weights, optimiser and adapter, by their names."""

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
            *(Result(f"memory {name}", size / 1e9, "GB") for name, size in self.memory_choices.items()),
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
    """Untrained copies of the model: a reference, or the initial weights. With an adapter they cost nothing. The
    engine's copy is counted anyway."""
    has_best: bool = False
    """Whether the best weights are kept; counted anyway in a run on rollouts with evaluations."""
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
        overhead = replace(overhead, has_best=True)
    sampled = rows + continued / max(cost.written, 1.0) + evaluated + overhead.rollouts
    steps = passes * (1 + overhead.critics) + overhead.scorings / BACKWARD
    memory = _memory(worker, cost, settings.optimiser, overhead=overhead, batch_rows=concurrent, sampled=concurrent)
    return Plan(
        algorithm,
        f"{rollouts.group_size} fresh trajector{'ies' if rollouts.group_size > 1 else 'y'} of each of "
        f"{settings.tasks_per_iteration} tasks per iteration",
        overhead.trainings * settings.iterations,
        "iteration",
        rows,
        round(rows * cost.tokens),
        memory.total,
        sampled * cost.sampling_seconds + rows * cost.update_seconds * steps,
        f"a probe of {len(tasks) * group_size} trajectories on this machine under its present load",
        round(continued),
        memory.choices,
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
    memory = _memory(worker, cost, settings, overhead=overhead, batch_rows=work.batch_rows)
    mean = sum(len(row.token_ids) for row in work.rows) / len(work.rows)
    return Plan(
        algorithm,
        f"{work.description} from the pool",
        work.units,
        work.unit,
        work.trained_rows,
        round(work.trained_rows * mean),
        memory.total,
        work.trained_rows * cost.update_seconds * (1 + overhead.scorings / BACKWARD),
        "the rows, and a probe of the time of a pass over some of them on this machine; without evaluations",
        memory_choices=memory.choices,
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
        (BACKWARD + RECOMPUTATION[settings.gradient_checkpointing]) * seconds,
        max(len(row.token_ids) for row in rows),
    )


class _PlannedMemory(NamedTuple):
    total: int
    """With the run's settings."""
    choices: Mapping[str, int]


def _memory(
    worker: PolicyWorker,
    cost: Cost,
    settings: OptimiserSettings,
    *,
    overhead: Overhead,
    batch_rows: int,
    sampled: int = 0,
) -> _PlannedMemory:
    """Upper bound: shared prefixes are computed once and take less. ``sampled``: concurrent rollouts."""
    tokens = max(cost.longest, min(settings.micro_batch_tokens, round(batch_rows * cost.tokens)))
    context = worker.runtime.limits.max_tokens or DEFAULT_CONTEXT_TOKENS
    load = Load(
        round(tokens * cost.written / max(cost.tokens, 1.0)),
        references=overhead.copies,
        has_best=overhead.has_best,
        is_sampled=True,
        cached_tokens=min(sampled, SLOTS) * cost.longest,
        reserved_tokens=min(sampled, SLOTS) * (context + 1),
        is_cpu=worker.model.device.type == "cpu",
    )
    shape, stepped = model_shape(worker.model), replace(settings, micro_batch_tokens=tokens)
    base = "full" if worker.adapter is None else worker.adapter.base

    def with_critics(policy: Memory) -> int:
        return policy.total + overhead.critics * (policy.optimiser + policy.weights)

    choices = memory_choices(shape, stepped, load, rank=shape.rank or DEFAULT_RANK)
    return _PlannedMemory(
        with_critics(estimate_memory(shape, stepped, load, base=base)),
        {name: with_critics(memory) for name, memory in choices.items()},
    )


class _NullSink:
    """Stores nothing."""

    def append(self, run: str, iteration: int, finished: Sequence[tuple[Task, Trajectory, Evaluation]]) -> None:
        """Does nothing."""
