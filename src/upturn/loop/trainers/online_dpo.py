"""Pairs of the agent's own fresh attempts, in rounds."""

from collections.abc import Mapping
from dataclasses import replace

from upturn.config import Config
from upturn.loop.evaluation import ExamResult
from upturn.loop.run import CONTINUATIONS, Context, critic_settings, made, optimiser, pair_objective, watch
from upturn.loop.trainers.rl_training import Course, learning, practice_of, practice_weights, practised
from upturn.loop.trainers.training_plan import Held, Plan, practice_plan
from upturn.records import AgentVersion
from upturn.training import DpoRoundsSettings, PairSettings


def settings(config: Config) -> DpoRoundsSettings:
    """What ``[dpo_rounds]`` asks for. Raises ConfigError."""
    section = config.dpo_rounds
    return made(
        "dpo_rounds",
        lambda: DpoRoundsSettings(
            rounds=section.iterations,
            pairs=PairSettings(
                by=section.pairs.by,
                min_margin=section.pairs.min_margin,
                valued_by=section.pairs.valued_by,
                monte_carlo_share=section.pairs.monte_carlo_share,
                gamma=section.pairs.gamma,
            ),
            epochs=section.epochs,
            batch_pairs=section.batch_pairs,
            objective=pair_objective(section.objective),
            reference=section.reference,
            optimiser=optimiser(config, section.learning_rate),
            decay=section.decay,
            **watch(section),
            critic=critic_settings(section.critic) if section.pairs.monte_carlo_share < 1 else None,
        ),
    )


def plan(context: Context, parent: AgentVersion) -> Plan:
    """What it would take; every attempt is counted as if it stood in a pair."""
    asked = settings(context.config)
    course = _course(context, dict.fromkeys(context.practised, 1.0), "dpo-rounds")
    references = int(asked.reference == "initial")
    critics = int(asked.critic is not None)
    held = Held(copies=references, critics=critics, scorings=references + critics)
    return practice_plan(context, parent, "dpo-rounds", course=course, passes=asked.epochs, held=held)


def train(context: Context, parent: AgentVersion, before: ExamResult, name: str) -> AgentVersion:
    """The version that practised; families are practised by what it failed before."""
    from upturn.training.algorithms.online_dpo import run_dpo_rounds

    course = _course(context, practice_weights(before), name)
    learn = learning(context, run_dpo_rounds, settings(context.config))
    return practised(context, parent, name, course=course, learn=learn)


def _course(context: Context, weights: Mapping[str, float], name: str) -> Course:
    section = context.config.dpo_rounds
    is_measured = section.pairs.valued_by == "state_values"
    practice = replace(
        practice_of(context, name, section.attempts),
        continuations=(section.pairs.continuations or CONTINUATIONS) if is_measured else 0,
        gamma=section.pairs.gamma,
    )
    return Course("Practice by preferring the better of its own attempts (DPO)", section, weights, practice)
