"""Supervised training on the verified successes that the pool holds."""

from upturn.loop.evaluation import ExamResult
from upturn.loop.rollouts import Trainee
from upturn.loop.run import Context
from upturn.loop.trainers.algorithm import Algorithm
from upturn.loop.trainers.cycle_training import rendered_demonstrations, take_training_snapshot, train_sft
from upturn.loop.trainers.pool_data import needed_pool
from upturn.loop.trainers.training_plan import Plan, in_epochs, rows_plan
from upturn.records import AgentVersion, Snapshot
from upturn.training import supervised_rows
from upturn.training.algorithms.sft import SftSettings


def plan(context: Context, parent: AgentVersion) -> Plan:
    """What it would take."""
    needed_pool(context, "sft")
    config = context.config.section(SftSettings)
    trainee = Trainee(context.fleet, parent, context.adapter)
    demonstrations = rendered_demonstrations(context, take_training_snapshot(context), trainee)
    rows = supervised_rows(demonstrations)
    words = f"{len(demonstrations)} verified successes"
    walk = in_epochs(rows, words, epochs=config.epochs, batch_rows=config.batch_rows)
    return rows_plan(context, trainee, "sft", walk)


def train(context: Context, parent: AgentVersion, _before: ExamResult, name: str) -> AgentVersion:
    """The version that learned from them."""
    needed_pool(context, "sft")
    snapshot = context.journal.record_step("snapshot", Snapshot, lambda: take_training_snapshot(context))
    return train_sft(context, parent, snapshot, name)


SFT = Algorithm(SftSettings, plan, train, frozenset({"pool"}))
