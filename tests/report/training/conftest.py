"""A realistic training run with invented numbers, for tests only."""

import math
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from upturn.config import CurriculumSettings
from upturn.records import Observation, Task, Trajectory
from upturn.report.training import TrainingReport
from upturn.training import TrainingOutcome
from upturn.training.advantage import ScoredGroup, ScoredTrajectory
from upturn.training.data.curriculum import Curriculum
from upturn.training.runs.curve import Curve, CurvePoint
from upturn.training.runs.run_folder import CURVE_FILE, RunDescription, RunPlan, write_description, write_outcome

PLAN = RunPlan(60, 5, 1, "best", target_score=0.95, patience=4, cost_limits={"safety": 0.05})
IDENTITY = {
    "algorithm": "grpo",
    "model": "Qwen2ForCausalLM",
    "initial weights": "5f2b1de0c4",
    "seed": "0",
    "setting iterations": "60",
    "setting optimiser": "OptimiserSettings(learning_rate=0.0001, warmup_steps=0)",
}
DESCRIPTION = RunDescription(IDENTITY, PLAN, "success on training templates in unseen worlds")


def policy_points(iterations: int = 60) -> tuple[CurvePoint, ...]:
    """A run that learns: evaluated before it and after every fifth iteration."""
    noise = random.Random(1)
    points = [CurvePoint(0, 0, evaluation(0.55, noise) | {"evaluate_seconds": 1.4})]
    for iteration in range(1, iterations + 1):
        level = 0.58 + 0.33 * (1 - math.exp(-iteration / 18))
        written, filtered = 19_000 + 40 * iteration, float(round(4 + iteration / 6 + noise.uniform(-2, 2)))
        metrics: dict[str, float | None] = {
            "trajectories": 192.0,
            "mean_return": round(level + noise.gauss(0, 0.025), 4),
            "groups": 24.0,
            "filtered_groups": filtered,
            "unscorable": float(noise.random() < 0.05),
            "forks": 0.0,
            "written_tokens": float(written),
            "trained_rows": 8 * (24.0 - filtered),
            "optimiser_steps": 2.0,
            "loss": noise.gauss(0, 0.01),
            "grad_norm": abs(0.35 + noise.gauss(0, 0.05) + (0.8 if iteration == 31 else 0)),
            "learning_rate": 1e-4,
            "logical_tokens": 70_000.0 + noise.uniform(-4_000, 4_000),
            "physical_tokens": 31_000.0 + noise.uniform(-2_000, 2_000),
            "share_ratio": 2.2 + noise.gauss(0, 0.05),
            "action_fraction": 0.27 + noise.gauss(0, 0.005),
            "fallbacks": 0.0,
            "verify_gap": 8e-6,
            "update_seconds": 1.1 + noise.uniform(0, 0.2),
            "tokens_per_second": 60_000 + noise.uniform(-4_000, 4_000),
            "clip_fraction": 0.021,
            "clip_fraction_low": 0.011 + noise.uniform(0, 0.004),
            "clip_fraction_high": 0.010 + noise.uniform(0, 0.004),
            "ratio": 1 + noise.gauss(0, 0.002),
            "ratio_squared": 1.01 + noise.gauss(0, 0.002),
            "kl_sampler": 0.0012 + noise.uniform(0, 0.0004),
            "entropy": 0.42 * math.exp(-iteration / 50) + noise.uniform(0, 0.02),
            "max_logprob_gap": 9e-6 + noise.uniform(0, 6e-6),
            "collect_seconds": 1.0 + noise.uniform(0, 0.2),
            "state_values": noise.random(),
        }
        if iteration % 5 == 0:
            metrics |= evaluation(round(level + 0.01, 3), noise) | {"evaluate_seconds": 1.4 + noise.uniform(0, 0.1)}
        points.append(CurvePoint(iteration, 2 * iteration, metrics))
    return tuple(points)


def evaluation(score: float, noise: random.Random) -> dict[str, float | None]:
    half = 1.96 * math.sqrt(score * (1 - score) / 108)
    costs = {"cost_safety": round(0.03 * noise.random(), 3), "cost_error": round(0.6 - 0.4 * score, 3)}
    return {
        "score": score,
        "score_low": score - half,
        "score_high": min(1.0, score + half),
        "score_tasks": 108.0,
        **costs,
    }


def supervised_points(steps: int = 220) -> tuple[CurvePoint, ...]:
    noise = random.Random(2)
    return tuple(
        CurvePoint(
            step,
            step,
            {
                "epoch": float((step - 1) // 55),
                "optimiser_steps": 1.0,
                "loss": 2.1 * math.exp(-step / 45) + 0.12 + noise.uniform(0, 0.06),
                "grad_norm": 0.9 + noise.uniform(0, 0.4),
                "learning_rate": 1e-3 * min(1.0, step / 10) * (1 - step / 300),
                "logical_tokens": 2_000.0 + noise.uniform(0, 300),
                "physical_tokens": 2_000.0 + noise.uniform(0, 300),
                "share_ratio": 1.0,
                "action_fraction": 0.3,
                "fallbacks": 0.0,
                "update_seconds": 0.3 + noise.uniform(0, 0.05),
                "tokens_per_second": 6_800 + noise.uniform(-400, 400),
                "token_logprob": -0.5,
                "collect_seconds": 0.0001,
            },
        )
        for step in range(1, steps + 1)
    )


@pytest.fixture
def finished() -> TrainingReport:
    """A policy-gradient run that finished as planned and kept the weights of iteration 60."""
    points = policy_points()
    best = max((p for p in points if p.metrics.get("score") is not None), key=lambda p: p.metrics["score"] or 0.0)
    score = best.metrics["score"]
    outcome = TrainingOutcome("finished", 60, 120, "best", best.units, "ab12" * 16, score, score)
    return TrainingReport("grpo", DESCRIPTION, points, outcome)


@pytest.fixture
def under_way() -> TrainingReport:
    """The same run after 23 of its 60 iterations."""
    return TrainingReport("grpo", DESCRIPTION, policy_points(23), None, "2026-03-01 12:30 UTC")


def _group(pool: str, successes: int) -> ScoredGroup:
    """A group of twenty trajectories of a task, at most nineteen of which succeed."""
    trajectory = Trajectory(pool, pool, "v", (), Observation(""), "finished", "sampled")
    successes = min(19, successes)
    return ScoredGroup(
        Task(pool, "", pool, ""),
        tuple(ScoredTrajectory(trajectory, (), succeeded=number < successes) for number in range(20)),
    )


def _family(group: ScoredGroup) -> str:
    return group.task.family


@pytest.fixture
def by_level(finished: TrainingReport) -> TrainingReport:
    """The same run with a curriculum of three levels, each of which fails until it is trained on."""
    curriculum = Curriculum({"a": 1, "b": 2, "c": 3}, CurriculumSettings("levels", window=3), seed=0)
    points = []
    for iteration, point in enumerate(finished.points):
        curriculum.start(iteration)
        curriculum.observe([_group(pool, iteration - 18 * index) for index, pool in enumerate("abc")], _family)
        points.append(replace(point, metrics={**point.metrics, **curriculum.metrics()}))
    return replace(finished, points=tuple(points))


@pytest.fixture
def supervised() -> TrainingReport:
    """A supervised run without evaluations."""
    plan = RunPlan(220, None, 20, "final", unit="optimiser step")
    outcome = TrainingOutcome("finished", 220, 220, "final", 220, "cd34" * 16, None, None)
    return TrainingReport(
        "sft", RunDescription({"algorithm": "sft", "seed": "0"}, plan), supervised_points(), outcome
    )


@pytest.fixture
def save() -> Callable[[TrainingReport, Path], Path]:
    """Writes a report's run as a folder."""

    def write(report: TrainingReport, folder: Path) -> Path:
        folder.mkdir(parents=True)
        write_description(folder, report.description)
        with Curve(folder / CURVE_FILE, keep_units=None) as curve:
            for point in report.points:
                curve.append(point)
        if report.outcome is not None:
            write_outcome(folder, report.outcome)
        return folder

    return write
