"""Practice with a critic."""

from collections.abc import Mapping

from upturn.config import Config
from upturn.loop.evaluation import ExamResult
from upturn.loop.run import Context, critic_settings, curriculum_settings, made, optimiser, watch
from upturn.loop.trainers.rl_training import Course, learning, practice_of, practice_weights, practised
from upturn.loop.trainers.training_plan import Held, Plan, practice_plan
from upturn.records import AgentVersion
from upturn.training import CreditSettings, ObjectiveSettings, PpoSettings


def settings(config: Config) -> PpoSettings:
    """What ``[ppo]`` asks for. Raises ConfigError."""
    section = config.ppo
    return made(
        "ppo",
        lambda: PpoSettings(
            iterations=section.iterations,
            minibatches=section.minibatches,
            passes=section.passes,
            objective=ObjectiveSettings(
                kind="turn" if section.clip.by == "turn" else "clipped",
                clip_low=section.clip.low,
                clip_high=section.clip.high,
            ),
            credit=CreditSettings(
                step=section.credit.step,
                gamma=section.credit.gamma,
                trace=section.credit.trace,
                value_trace=section.credit.value_trace,
                is_whitened=section.credit.is_whitened,
            ),
            critic=critic_settings(section.critic),
            optimiser=optimiser(config, section.learning_rate),
            decay=section.decay,
            **watch(section),
        ),
    )


def plan(context: Context, parent: AgentVersion) -> Plan:
    """What it would take."""
    asked = settings(context.config)
    course = _course(context, dict.fromkeys(context.practised, 1.0), "ppo")
    return practice_plan(context, parent, "ppo", course=course, passes=asked.passes, held=Held(critics=1))


def train(context: Context, parent: AgentVersion, before: ExamResult, name: str) -> AgentVersion:
    """The version that practised; families are practised by what it failed before."""
    from upturn.training.algorithms.ppo import run_ppo

    course = _course(context, practice_weights(before), name)
    learn = learning(context, run_ppo, settings(context.config))
    return practised(context, parent, name, course=course, learn=learn)


def _course(context: Context, weights: Mapping[str, float], name: str) -> Course:
    section = context.config.ppo
    return Course(
        "Practice with a critic (PPO)",
        section,
        weights,
        practice_of(context, name, section.attempts),
        curriculum=curriculum_settings(context.config.curriculum),
    )
