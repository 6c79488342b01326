"""A custom algorithm in one file: train on the shortest success of each task.

    upturn train own_algorithm:SHORTEST --config upturn.toml

Its settings are the section ``[shortest]``; checks, the card, curves, ``--dry-run`` and ``--resume`` are included.
"""

from upturn.config import Count, settings
from upturn.loop import trainers
from upturn.loop.evaluation import HeldoutResult
from upturn.loop.rollouts import PolicyWorker
from upturn.loop.run import Context
from upturn.records import AgentVersion, Snapshot, Trajectory
from upturn.training import TrainingRow, supervised_rows, written_count
from upturn.training.algorithms.sft import SftSettings, run_sft
from upturn.training.runs import RunOptions


@settings
class ShortestSettings(SftSettings):
    """Supervised training on the shortest success of each task."""

    most_tokens: Count = 200
    """Successes with more written tokens are omitted."""


def shortest(context: Context, worker: PolicyWorker, snapshot: Snapshot) -> tuple[TrainingRow, ...]:
    """The rows of the shortest success of each task, if it is short enough."""
    limit, best = context.config.section(ShortestSettings).most_tokens, dict[str, Trajectory]()
    successes = trainers.render_demonstrations(context, snapshot, worker)
    for trajectory in sorted(successes, key=written_count, reverse=True):
        best[trajectory.task_id] = trajectory
    return supervised_rows(trajectory for trajectory in best.values() if written_count(trajectory) <= limit)


def plan(context: Context, parent: AgentVersion) -> trainers.Plan:
    """Estimated cost of a run."""
    section, worker = context.config.section(ShortestSettings), PolicyWorker(context.runtime, parent)
    rows = shortest(context, worker, trainers.take_training_snapshot(context))
    work = trainers.epoch_workload(rows, f"{len(rows)} rows", epochs=section.epochs, batch_rows=section.batch_rows)
    return trainers.plan_on_rows(context, worker, "shortest", work)


def train(context: Context, parent: AgentVersion, _before: HeldoutResult, name: str) -> AgentVersion:
    """The trained version."""
    section, worker = context.config.section(ShortestSettings), PolicyWorker(context.runtime, parent)
    snapshot = context.journal.record_step("snapshot", Snapshot, lambda: trainers.take_training_snapshot(context))
    rows = shortest(context, worker, snapshot)
    options = RunOptions(context.seed, trainers.training_folder(context, name))
    trainers.train_on_all_ranks(context.world, worker, run_sft, rows, section, options)
    return trainers.save_candidate(context, worker, parent, name, snapshot=snapshot.id)


SHORTEST = trainers.Algorithm(ShortestSettings, plan, train, frozenset({"pool"}))
