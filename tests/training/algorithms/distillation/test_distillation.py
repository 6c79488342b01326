"""On-policy distillation reaches the teacher's distribution on a toy, mixes with rewards, and resumes exactly."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import PreTrainedModel

from upturn.config import OptimiserSettings
from upturn.errors import ConfigError, TrainingError
from upturn.training import (
    DynamicSamplingSettings,
    MismatchSettings,
    ScoredGroup,
    ScoredTrajectory,
    TeacherSettings,
    TrainingRow,
)
from upturn.training.advantages import AdvantageSettings
from upturn.training.algorithms.distillation import DistillationSettings, run_distillation
from upturn.training.algorithms.grpo import GrpoSettings, run_grpo
from upturn.training.distributed import weight_tensors
from upturn.training.optimisation import DistributionTeacher, Trainer
from upturn.training.row import FloatArray
from upturn.training.runs import RunOptions, read_curve
from upturn.training.runs.run_folder import CURVE_FILE

Model = Callable[..., PreTrainedModel]
Toy = Callable[..., Any]
TEACHER = TeacherSettings("teacher")


def _settings(**changes: Any) -> DistillationSettings:
    values: dict[str, Any] = {
        "iterations": 60,
        "optimiser": OptimiserSettings(learning_rate=1e-2),
        "evaluate_every": None,
        "keep": "final",
        "checkpoint_every": 100,
        "teacher": TEACHER,
    }
    return DistillationSettings(**{**values, **changes})


def _sharp(model: PreTrainedModel) -> PreTrainedModel:
    """A teacher that is far from uniform."""
    with torch.no_grad():
        model.get_output_embeddings().weight.mul_(8.0)
    return model


def _score(model: PreTrainedModel) -> Callable[[Sequence[TrainingRow]], list[FloatArray]]:
    return Trainer(model, OptimiserSettings()).score


def _divergence(task: Any, teacher: Any) -> float:
    """Mean KL(π ‖ π_teacher) over the toy's prompts."""
    own, other = task._distribution(), teacher._distribution()
    return float((own * (own / other).log()).sum(1).mean())


@pytest.mark.parametrize("estimator", ["sampled", "full"])
def test_the_teachers_distribution_is_reached_without_rewards(
    tiny_model: Model, copy_task: Toy, tmp_path: Path, estimator: Any
) -> None:
    student, teacher = copy_task(tiny_model(), group_size=16), copy_task(_sharp(tiny_model(1)))

    def collect(iteration: int) -> list[ScoredGroup]:
        """The toy's trajectories, whose rewards are missing."""
        return [
            ScoredGroup(group.task, tuple(ScoredTrajectory(member.trajectory, None) for member in group.members))
            for group in student.collect(iteration)
        ]

    before = _divergence(student, teacher)
    scorer = _score(teacher.model)
    run_distillation(
        student.model,
        collect,
        _settings(teacher=replace(TEACHER, estimator=estimator)),
        RunOptions(0, tmp_path),
        teacher=scorer if estimator == "sampled" else DistributionTeacher(teacher.model, OptimiserSettings()),
    )
    assert before > 1.0
    assert _divergence(student, teacher) < 0.05 * before
    curve = [point.metrics for point in read_curve(tmp_path / CURVE_FILE)]
    assert curve[0]["unscorable"] == curve[0]["trajectories"] == 64.0
    first, last = curve[0]["teacher_kl"], curve[-1]["teacher_kl"]
    assert first is not None and last is not None and last < 0.2 * first
    assert all(metrics.get("teacher_missing", 0.0) == 0.0 for metrics in curve)


@pytest.mark.slow
def test_rewards_are_learned_as_well_where_they_are_mixed_in(
    tiny_model: Model, copy_task: Toy, tmp_path: Path
) -> None:
    """The teacher almost never copies: the reward alone teaches that, and the teacher alone unteaches it."""

    def trained(coefficient: float) -> Any:
        task, teacher = copy_task(tiny_model()), copy_task(_sharp(tiny_model(1)))
        settings = GrpoSettings(
            iterations=60,
            optimiser=OptimiserSettings(learning_rate=1e-2),
            evaluate_every=None,
            keep="final",
            checkpoint_every=100,
            teacher=TeacherSettings("teacher", coefficient=coefficient),
        )
        folder = tmp_path / str(coefficient)
        run_grpo(task.model, task.collect, settings, RunOptions(0, folder), teacher=_score(teacher.model))
        return task.score(0)

    assert trained(0.01) > 0.9
    assert trained(10.0) < 0.2


@pytest.mark.parametrize("changes", [{}, {"minibatches": 2, "mismatch": MismatchSettings()}], ids=["", "mismatch"])
def test_a_resumed_run_has_bitwise_the_weights_of_an_uninterrupted_one(
    tiny_model: Model, copy_task: Toy, tmp_path: Path, changes: dict[str, Any]
) -> None:
    settings, teacher = _settings(iterations=5, checkpoint_every=2, **changes), _score(tiny_model(1))

    def run(task: Any, folder: str, stop_at: int | None = None) -> None:
        def collect(iteration: int) -> list[ScoredGroup]:
            if iteration == stop_at:
                raise KeyboardInterrupt
            groups: list[ScoredGroup] = task.collect(iteration)
            return groups

        run_distillation(task.model, collect, settings, RunOptions(1, tmp_path / folder), teacher=teacher)

    undisturbed, resumed = copy_task(tiny_model()), copy_task(tiny_model())
    run(undisturbed, "a")
    with pytest.raises(KeyboardInterrupt):
        run(copy_task(tiny_model()), "b", stop_at=3)
    run(resumed, "b")
    ours = weight_tensors(resumed.model)
    assert all(torch.equal(tensor, ours[name]) for name, tensor in weight_tensors(undisturbed.model).items())


def test_the_signal_is_taken_to_the_trainers_log_probs_where_these_are_recomputed(
    tiny_model: Model, copy_task: Toy, tmp_path: Path
) -> None:
    """The sampler's recorded log-probs are wrong by 1; with ``mismatch`` they are replaced before the teacher."""
    student, teacher = copy_task(tiny_model()), copy_task(_sharp(tiny_model(1)))
    divergences = []
    for mismatch in (None, MismatchSettings()):

        def scorer(rows: Sequence[TrainingRow]) -> list[FloatArray]:
            return [np.asarray(score, dtype=np.float32) for score in _score(teacher.model)(rows)]

        def collect(iteration: int) -> list[ScoredGroup]:
            def shifted(member: ScoredTrajectory) -> ScoredTrajectory:
                trajectory = member.trajectory
                rows = tuple(
                    replace(row, logprobs=tuple(value - 1.0 for value in row.logprobs)) for row in trajectory.rows
                )
                return replace(member, trajectory=replace(trajectory, rows=rows))

            groups: list[ScoredGroup] = student.collect(iteration)
            return [replace(group, members=tuple(map(shifted, group.members))) for group in groups]

        folder = tmp_path / str(mismatch is None)
        settings = _settings(iterations=1, mismatch=mismatch, optimiser=OptimiserSettings(learning_rate=1e-9))
        run_distillation(student.model, collect, settings, RunOptions(0, folder), teacher=scorer)
        divergences.append(read_curve(folder / CURVE_FILE)[-1].metrics["teacher_kl"])
    recorded, recomputed = divergences
    assert recorded is not None and recomputed is not None
    assert recomputed - recorded == pytest.approx(1.0, abs=1e-4)


def test_a_teacher_in_the_settings_alone_or_in_the_call_alone_is_refused(
    tiny_model: Model, copy_task: Toy, tmp_path: Path
) -> None:
    task, plain = copy_task(tiny_model()), GrpoSettings(evaluate_every=None, keep="final")
    taught = GrpoSettings(evaluate_every=None, keep="final", teacher=TEACHER)
    with pytest.raises(TrainingError, match=r"settings\.teacher without teacher does nothing"):
        run_grpo(task.model, task.collect, taught, RunOptions(0, tmp_path))
    with pytest.raises(TrainingError, match="the teacher is a method, which does not go with estimator='full'"):
        run_distillation(
            task.model,
            task.collect,
            _settings(teacher=replace(TEACHER, estimator="full")),
            RunOptions(0, tmp_path),
            teacher=_score(tiny_model(1)),
        )
    with pytest.raises(TrainingError, match=r"teacher without settings\.teacher does nothing"):
        run_grpo(task.model, task.collect, plain, RunOptions(0, tmp_path), teacher=_score(tiny_model(1)))


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (
            lambda: _settings(advantage=AdvantageSettings(scale="std")),
            "advantage would do nothing with distillation",
        ),
        (lambda: _settings(dynamic_sampling=DynamicSamplingSettings()), "dynamic_sampling would do nothing with"),
        (
            lambda: GrpoSettings(teacher=TEACHER, dynamic_sampling=DynamicSamplingSettings()),
            "teacher='teacher' gives every group a signal, and dynamic_sampling drops",
        ),
        (lambda: GrpoSettings(teacher=TeacherSettings()), r"teacher\.model is empty; name the teacher"),
        (lambda: TeacherSettings("t", url="http://x"), "needs tokenizer, the folder or name of the teacher's"),
        (
            lambda: TeacherSettings(url="http://x", tokenizer="t"),
            "needs model, the name that the server knows it by",
        ),
        (
            lambda: TeacherSettings("t", url="http://x", tokenizer="t", weights="bfloat16"),
            "weights='bfloat16' would do nothing with url",
        ),
        (
            lambda: TeacherSettings("t", url="http://x", tokenizer="t", estimator="full"),
            "url='http://x' cannot give whole distributions, as estimator='full' needs; take 'sampled'",
        ),
        (
            lambda: TeacherSettings("t", estimator="full", discount=0.5),
            "discount=0.5 would do nothing with estimator=",
        ),
        (lambda: TeacherSettings("t", dialect="sglang"), "dialect='sglang' would do nothing without url"),
        (lambda: TeacherSettings("t", tokenizer="nano"), "tokenizer='nano' would do nothing without url"),
    ],
)
def test_settings_without_effect_are_refused(make: Callable[[], object], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        make()
