"""What a training run would do and take: counted where it can be counted, else measured on a small probe.

A probe attempts a few tasks with the version that is to be trained, keeps nothing of it, and scores what was
written: a step forward and back takes about three times that. Figures are for this machine and its present load.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from upturn.config import OptimiserSettings
from upturn.errors import TrainingError
from upturn.loop.agent_runtime import SLOTS
from upturn.loop.evaluation import heldout_tasks, selection_tasks
from upturn.loop.rollouts import PolicyWorker, RolloutPlan, TaskSampler, written_from_states
from upturn.loop.run import Context
from upturn.loop.trainers.rl_training import Course
from upturn.records import AgentVersion, Evaluation, Result, Task, Trajectory, record
from upturn.training import IterationSettings, PolicyGradientSettings, TrainingRow, policy_rows, written_count
from upturn.training.optimisation import Memory, estimate_memory, model_shape

PROBED_ATTEMPTS = 48
"""At most."""
BACKWARD = 3.0
"""A step forward and back, in passes forward."""
AGAIN = 1.0
"""What is added to that where activations are computed again."""
FEW_ROWS = 64
"""Rows that are scored to measure how long a step takes."""


@record
class Plan:
    """A run before it is run."""

    algorithm: str
    learns_from: str
    """In words."""
    units: int
    unit: str
    rows: int
    """Sequences trained on, all units together."""
    tokens: int
    """Tokens in them, prompts included."""
    memory_bytes: int
    seconds: float
    basis: str
    """What the figures rest on, in words."""
    continued_tokens: int = 0
    """Written to measure what states are worth, beside those that are trained on; 0 = none are measured."""

    def results(self) -> list[Result]:
        """As a command prints them."""
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
    """What one attempt, or one row, takes."""

    tokens: float
    written: float
    sampling_seconds: float
    """0 = nothing is sampled."""
    update_seconds: float
    longest: int
    """Tokens of the longest."""
    continued: float = 0.0
    """Tokens that one continuation from each of its states writes, of those that attempts share once; 0 where no
    state is measured."""


@dataclass(frozen=True, slots=True)
class Held:
    """What a run holds and does beside training its model."""

    copies: int = 0
    """Of the model in memory, not trained: a reference, or the best weights so far. Those of watched practice, and
    the copy that the engine has laid out for sampling, are counted anyway."""
    critics: int = 0
    """Of the model, trained."""
    scorings: float = 0.0
    """Of every row each time it is trained on, without a step: by a reference, or by the model itself before it
    changes; what is scored once for several epochs is a part of one."""
    trainings: int = 1
    """How often the same is done anew, from other seeds or with other rewards."""
    heldout_results: int = 2
    """On all held-out tasks."""
    attempts: int = 0
    """Further ones, which nothing is trained on."""


def held_by(settings: PolicyGradientSettings, *, copies: int = 0) -> Held:
    """What a policy gradient holds, beside so many further copies."""
    references = int(settings.objective.kl is not None)
    return Held(copies=copies + references, scorings=references + int(settings.mismatch is not None))


class Walk(NamedTuple):
    """What a run over rows that are there already goes through."""

    rows: Sequence[TrainingRow]
    words: str
    """What they are of, with the number, such as ``36 pairs``."""
    units: int
    unit: str
    taken: int
    """Rows trained on, all units together."""
    batch_rows: int
    """In one optimiser step."""


def in_epochs(rows: Sequence[TrainingRow], words: str, *, epochs: int, batch_rows: int) -> Walk:
    """Passes over all of them in batches."""
    steps = epochs * -(-len(rows) // batch_rows)
    return Walk(rows, words, steps, "optimiser step", epochs * len(rows), batch_rows)


def practice_plan(
    context: Context,
    parent: AgentVersion,
    algorithm: str,
    *,
    course: Course,
    passes: int = 1,
    held: Held = Held(),  # frozen
) -> Plan:
    """Of a run that learns from fresh attempts; ``passes``: how often each is used."""
    section, practice = course.section, course.practice
    worker = PolicyWorker(context.runtime, parent, context.adapter)
    sampler = TaskSampler(context.kit, course.weights, section.tasks_per_iteration, seed=practice.seed)
    attempts = min(practice.attempts, PROBED_ATTEMPTS)
    tasks = (course.tasks or sampler.tasks)(0)[: max(1, PROBED_ATTEMPTS // attempts)]
    settings = section.optimiser
    cost = probed(worker, tasks, replace(practice, attempts=attempts), settings)
    rows = held.trainings * section.iterations * section.tasks_per_iteration * practice.attempts
    looks = len(selection_tasks(context).tasks) * evaluations(section) if course.is_watched else 0
    continued = rows * practice.continuations * cost.continued
    heldout = held.trainings * looks + held.heldout_results * len(heldout_tasks(context))
    sampled = rows + continued / max(cost.written, 1.0) + heldout + held.attempts
    steps = passes * (1 + held.critics) + held.scorings / BACKWARD
    seconds = sampled * cost.sampling_seconds + rows * cost.update_seconds * steps
    alive = section.tasks_per_iteration * practice.attempts
    kept = replace(held, copies=held.copies + int(course.is_watched))
    taken = _memory(worker, cost, settings, held=kept, batch_rows=alive, alive=alive)
    return Plan(
        algorithm,
        f"{practice.attempts} fresh attempt{'s' if practice.attempts > 1 else ''} at each of "
        f"{section.tasks_per_iteration} tasks a round",
        held.trainings * section.iterations,
        "iteration",
        rows,
        round(rows * cost.tokens),
        taken.total,
        seconds,
        f"a probe of {len(tasks) * attempts} attempts on this machine, as busy as it is now",
        round(continued),
    )


def evaluations(section: IterationSettings) -> int:
    """How often a run in rounds is evaluated: before it, when it is due, and at its end."""
    if section.evaluate_every is None:
        return 0
    due, rest = divmod(section.iterations, section.evaluate_every)
    return 1 + due + (1 if rest else 0)


def rows_plan(
    context: Context,
    worker: PolicyWorker,
    algorithm: str,
    walk: Walk,
    *,
    held: Held = Held(),  # frozen
) -> Plan:
    """Of a run over rows that are there already. Exams are not in it."""
    settings = context.config.optimiser
    cost = scored(worker, walk.rows, settings)
    mean = sum(len(row.token_ids) for row in walk.rows) / len(walk.rows)
    return Plan(
        algorithm,
        f"{walk.words} that the pool holds",
        walk.units,
        walk.unit,
        walk.taken,
        round(walk.taken * mean),
        _memory(worker, cost, settings, held=held, batch_rows=walk.batch_rows).total,
        walk.taken * cost.update_seconds * (1 + held.scorings / BACKWARD),
        "the rows themselves, and a probe of how long a pass over some of them takes here; without held-out "
        "evaluations",
    )


def probed(worker: PolicyWorker, tasks: Sequence[Task], practice: RolloutPlan, settings: OptimiserSettings) -> Cost:
    """What one attempt takes; nothing of it is kept."""
    started = time.perf_counter()
    groups = worker.sample_groups(
        tasks, 0, replace(practice, run=f"{practice.run}/probe", continuations=0), _Nowhere()
    )
    sampling = time.perf_counter() - started
    attempts = [member.trajectory for group in groups for member in group.members]
    rows = [row for each in attempts if each.rows for row in policy_rows(each, (0.0,) * len(each.turns))]
    cost = scored(worker, rows, settings)
    written = sum(map(written_count, attempts)) / len(attempts)
    return Cost(
        sum(len(row.token_ids) for row in rows) / len(attempts),
        written,
        sampling / len(attempts),
        cost.update_seconds * len(rows) / len(attempts),
        cost.longest,
        written_from_states(worker.runtime, groups) / len(attempts) if practice.continuations else 0.0,
    )


def scored(worker: PolicyWorker, rows: Sequence[TrainingRow], settings: OptimiserSettings) -> Cost:
    """What one row takes to train on; nothing is trained. Raises TrainingError without a row."""
    from upturn.training.optimisation import Trainer

    some = list(rows[:FEW_ROWS])
    if not some:
        raise TrainingError(
            f"there is not one row of tokens to train {worker.version.id!r} on, so a plan cannot be measured; "
            "look at how its attempts end, or take a pool with attempts that its renderer can write"
        )
    trainer = Trainer(worker.model, settings)
    trainer.score(some)  # the first pass checks the tree against the padded one
    started = time.perf_counter()
    trainer.score(some)
    seconds = (time.perf_counter() - started) / len(some)
    return Cost(
        sum(len(row.token_ids) for row in some) / len(some),
        sum(len(row.positions) for row in some) / len(some),
        0.0,
        (BACKWARD + (AGAIN if settings.gradient_checkpointing else 0.0)) * seconds,
        max(len(row.token_ids) for row in rows),
    )


def _memory(
    worker: PolicyWorker, cost: Cost, settings: OptimiserSettings, *, held: Held, batch_rows: int, alive: int = 0
) -> Memory:
    """At most: common beginnings are computed once and take less. ``alive``: attempts sampled at the same time."""
    shape, copies = model_shape(worker.model), held.copies + 1
    tokens = max(cost.longest, min(settings.micro_batch_tokens, round(batch_rows * cost.tokens)))
    own = estimate_memory(
        shape,
        micro_batch_tokens=tokens,
        written_tokens=round(tokens * cost.written / max(cost.tokens, 1.0)),
        is_checkpointed=settings.gradient_checkpointing,
        copies=copies,
        cached_tokens=min(alive, SLOTS) * cost.longest,
    )
    critics = held.critics * (own.optimiser + own.weights // (1 + copies))
    return replace(own, optimiser=own.optimiser + critics)


class _Nowhere:
    """Forgets what was attempted."""

    def append(self, run: str, iteration: int, finished: Sequence[tuple[Task, Trajectory, Evaluation]]) -> None:
        """Nothing."""
