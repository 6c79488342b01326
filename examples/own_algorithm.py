"""An algorithm of your own in one file: train on the shortest success of each task.

    upturn train own_algorithm:SHORTEST --config upturn.toml

Its settings are the section ``[shortest]``; checks, the card, curves, ``--dry-run`` and ``--resume`` come with it.
"""

from upturn.config import Count, settings
from upturn.loop.evaluation import HeldoutResult
from upturn.loop.rollouts import PolicyWorker
from upturn.loop.run import Context
from upturn.loop.trainers import (
    Algorithm,
    Plan,
    in_epochs,
    jointly,
    keep_version,
    rendered_demonstrations,
    rows_plan,
    take_training_snapshot,
    training_folder,
)
from upturn.records import AgentVersion, Snapshot, Trajectory
from upturn.training import supervised_rows, written_count
from upturn.training.algorithms.sft import SftSettings, run_sft
from upturn.training.runs import RunOptions


@settings
class ShortestSettings(SftSettings):
    """Supervised training on the shortest success of each task."""

    most_tokens: Count = 200
    """Successes with more written tokens are left out."""


def shortest(context: Context, worker: PolicyWorker, snapshot: Snapshot) -> list[Trajectory]:
    """The shortest success of each task that is short enough."""
    most, best = context.config.section(ShortestSettings).most_tokens, dict[str, Trajectory]()
    for each in sorted(rendered_demonstrations(context, snapshot, worker), key=written_count, reverse=True):
        best[each.task_id] = each
    return [each for each in best.values() if written_count(each) <= most]


def plan(context: Context, parent: AgentVersion) -> Plan:
    section, worker = (
        context.config.section(ShortestSettings),
        PolicyWorker(context.runtime, parent, context.adapter),
    )
    rows = supervised_rows(shortest(context, worker, take_training_snapshot(context)))
    steps = in_epochs(rows, f"{len(rows)} rows", epochs=section.epochs, batch_rows=section.batch_rows)
    return rows_plan(context, worker, "shortest", steps)


def train(context: Context, parent: AgentVersion, _before: HeldoutResult, name: str) -> AgentVersion:
    section, worker = (
        context.config.section(ShortestSettings),
        PolicyWorker(context.runtime, parent, context.adapter),
    )
    snapshot = context.journal.record_step("snapshot", Snapshot, lambda: take_training_snapshot(context))
    rows = supervised_rows(shortest(context, worker, snapshot))
    folder = training_folder(context, name)
    jointly(context.world, worker, run_sft, rows, section, RunOptions(context.seed, folder))
    return keep_version(context, worker, parent, name, snapshot=snapshot.id)


SHORTEST = Algorithm(ShortestSettings, plan, train, frozenset({"pool"}))
