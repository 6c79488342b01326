"""Learning what the environment answers, from attempts that the pool holds."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from upturn.config import Config
from upturn.loop.evaluation import ExamResult
from upturn.loop.rollouts import Trainee
from upturn.loop.run import Context, made, optimiser, watch
from upturn.loop.trainers.candidate import training_folder
from upturn.loop.trainers.cycle_training import demonstrations_in, with_rows
from upturn.loop.trainers.pool_data import needed_pool
from upturn.loop.trainers.trained_version import Learned
from upturn.loop.trainers.training_plan import Plan, Walk, evaluations, held_by, rows_plan
from upturn.loop.trainers.world_model_training import observed, take_world_snapshot, train_world_model
from upturn.models import RenderedObservations
from upturn.records import AgentVersion, Result, Snapshot
from upturn.report.training import TrainingReport, beginning, read_training
from upturn.training import SftSettings, supervised_rows
from upturn.training.algorithms import preset
from upturn.training.algorithms.world_model import WorldModelSettings
from upturn.training.data import Transition

FEW_TRANSITIONS = 48
"""Answers that are predicted to measure how long it takes."""


def settings(config: Config) -> WorldModelSettings:
    """What ``[world_model]`` asks for. Raises ConfigError."""
    section = config.world_model
    rate = optimiser(config, section.learning_rate)
    return made(
        "world_model",
        lambda: WorldModelSettings(
            threshold=section.threshold,
            transitions_per_iteration=section.transitions_per_iteration,
            attempts=section.attempts,
            common_ratio=section.common_ratio,
            warm_up=SftSettings(
                epochs=section.warm_up_epochs,
                optimiser=optimiser(config, section.warm_up_learning_rate),
                decay="linear",
            )
            if section.warm_up_epochs
            else None,
            practice=replace(
                preset("grpo"),
                iterations=section.iterations,
                optimiser=rate,
                decay=section.decay,
                **watch(section),
            ),
        ),
    )


def plan(context: Context, parent: AgentVersion) -> Plan:
    """What it would take, with predictions as long as the pool's attempts, and no transition left out as common."""
    needed_pool(context, "world-model")
    asked, trainee = settings(context.config), Trainee(context.fleet, parent, context.adapter)
    attempts = demonstrations_in(context, take_world_snapshot(context))
    rows = supervised_rows([with_rows(each, trainee.renderer, trainee.prompts) for each in attempts])
    world = observed(attempts, trainee)
    easy = 0 if asked.easy is None else asked.easy.attempts * len(world.trained)
    looks = evaluations(context.config.world_model) * len(world.held_out)
    batch = asked.transitions_per_iteration * asked.attempts
    warm_up = 0 if asked.warm_up is None else asked.warm_up.epochs * len(rows)
    rounds = asked.practice.iterations
    walk = Walk(rows, f"{len(attempts)} attempts", rounds, "iteration", rounds * batch + warm_up, batch)
    found = rows_plan(context, trainee, "world-model", walk, held=held_by(asked.practice, copies=1))
    probed = world.trained[:FEW_TRANSITIONS]
    return replace(
        found,
        seconds=found.seconds + (rounds * batch + easy + looks) * _seconds(trainee, probed),
        basis="a probe of how long a pass over some of the attempts and predictions of "
        f"{len(probed)} of their answers take here; without exams",
    )


def _seconds(trainee: Trainee, transitions: Sequence[Transition]) -> float:
    """For one prediction; nothing of it is kept."""
    from upturn.training.algorithms.world_model import Predictor

    if not transitions:
        return 0.0  # there is nothing to predict, which the run says
    predictor = Predictor(trainee.engine, RenderedObservations(trainee.renderer))
    started = time.perf_counter()
    predictor.predict(transitions, 1, key="probe", seed=0)
    return (time.perf_counter() - started) / len(transitions)


def train(context: Context, parent: AgentVersion, _before: ExamResult, name: str) -> Learned:
    """The version that knows the world better, and by how much; practice goes on from it."""
    needed_pool(context, "world-model")
    snapshot = context.journal.record_step("snapshot", Snapshot, lambda: take_world_snapshot(context))
    version = train_world_model(context, parent, snapshot, name, settings=settings(context.config))
    return learned(version, read_training(training_folder(context, name)))


def learned(version: AgentVersion, report: TrainingReport) -> Learned:
    """The version with its lift, and that of the weights that practice began with: those after any warm-up."""
    kept = report.kept
    if kept is None:  # what is evaluated is kept by it
        return Learned(version)
    first, metrics = report.evaluations[0].metrics, kept.metrics
    n = round(metrics["score_tasks"] or 0)
    lifts = [
        Result(name, each["score"] or 0.0, "share", n=n)
        for name, each in (("lift_first", first), ("lift", metrics))
    ]
    line = (
        f"Of {n} held-out answers the version predicts {_points(metrics, 'held_out_right'):.1f} % right, and "
        f"always naming a tool's most common answer {_points(metrics, 'held_out_usual'):.1f} %: the lift is "
        f"{_points(metrics, 'score'):+.1f} points, and was {_points(first, 'score'):+.1f} {beginning(report)}."
    )
    return Learned(version, tuple(lifts), ("", line))


def _points(metrics: Mapping[str, float | None], name: str) -> float:
    return 100 * (metrics[name] or 0.0)
