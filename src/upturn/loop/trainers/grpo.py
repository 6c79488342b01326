"""Practice with group-relative policy optimisation."""

from upturn.config import Config
from upturn.errors import ConfigError
from upturn.loop.evaluation import ExamResult
from upturn.loop.run import Context
from upturn.loop.trainers.algorithm import Algorithm
from upturn.loop.trainers.cycle_training import grpo_course, train_grpo
from upturn.loop.trainers.rl_training import practice_weights
from upturn.loop.trainers.training_plan import Plan, held_by, practice_plan
from upturn.records import AgentVersion
from upturn.training.algorithms.grpo import GrpoSettings


def plan(context: Context, parent: AgentVersion) -> Plan:
    """What it would take."""
    settings = context.config.section(GrpoSettings)
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


def check(config: Config) -> None:
    """Raises ConfigError for a curriculum beside sampling ahead."""
    curriculum, staleness = config.curriculum, config.section(GrpoSettings).staleness
    if curriculum is not None and staleness:
        raise ConfigError(
            [
                f"curriculum.policy = {curriculum.policy!r} decides by what the last iteration came to, which "
                f"sampling ahead (grpo.staleness = {staleness}) does not know yet; take one away"
            ]
        )


GRPO = Algorithm(GrpoSettings, plan, train, frozenset({"rollouts", "rewards", "curriculum"}), check)
