"""Practice with group-relative policy optimisation."""

from upturn.loop.evaluation import ExamResult
from upturn.loop.run import Context, algorithm_settings
from upturn.loop.trainers.cycle_training import grpo_course, train_grpo
from upturn.loop.trainers.rl_training import practice_weights
from upturn.loop.trainers.training_plan import Plan, held_by, practice_plan
from upturn.records import AgentVersion


def plan(context: Context, parent: AgentVersion) -> Plan:
    """What it would take."""
    settings = algorithm_settings(context.config)
    return practice_plan(
        context,
        parent,
        "grpo",
        course=grpo_course(context, settings, dict.fromkeys(context.practised, 1.0), "grpo"),
        passes=settings.passes,
        held=held_by(settings),
    )


def train(context: Context, parent: AgentVersion, before: ExamResult, name: str) -> AgentVersion:
    """The version that practised; families are practised by what it failed before."""
    return train_grpo(context, parent, practice_weights(before), name)
