"""Practice with group-relative policy optimisation."""

from upturn.loop.algorithm import algorithm_settings
from upturn.loop.context import Context
from upturn.loop.exam import ExamResult
from upturn.loop.plan import Plan, held_by, practice_plan
from upturn.loop.practice import practice_weights
from upturn.loop.training import grpo_course, train_grpo
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
