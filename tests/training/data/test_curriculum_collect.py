"""Rollouts that follow a curriculum: level after level, and resumed with the curriculum's state."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import PreTrainedModel

from upturn.config import CurriculumSettings, GateSettings, OptimiserSettings
from upturn.errors import TrainingError
from upturn.training import ScoredGroup
from upturn.training.algorithms.grpo import GrpoSettings, run_grpo
from upturn.training.data.curriculum import Curriculum, Portion
from upturn.training.data.curriculum_collect import CurriculumCollect, SampleRequest
from upturn.training.distributed.weights import weight_tensors
from upturn.training.policy_settings import DynamicSamplingSettings
from upturn.training.runs import RunOptions, read_curve
from upturn.training.runs.curve import CurvePoint
from upturn.training.runs.metric import UNREPEATED, metric_of
from upturn.training.runs.run_folder import CURVE_FILE

Model = Callable[..., PreTrainedModel]
Toy = Callable[..., Any]
POOLS: Mapping[str, Sequence[int]] = {"low": (3, 4), "high": (5, 6)}
"""Symbols to copy."""
LEVELS = {"low": 1, "high": 2}
PLAN = CurriculumSettings(window=3, min_trajectories=8, gate=GateSettings(0.01, 0.99, 0.2))
RL = GrpoSettings(
    iterations=6,
    minibatches=1,
    optimiser=OptimiserSettings(learning_rate=1e-2),
    evaluate_every=None,
    keep="final",
)


class Desk:
    """The copy task by pool; records its requests."""

    def __init__(self, task: Any) -> None:
        self.task = task
        self.requests: list[SampleRequest] = []

    def sample_groups(self, request: SampleRequest) -> list[ScoredGroup]:
        self.requests.append(request)
        generator = torch.Generator().manual_seed(request.iteration + 100_000 * request.round_index)
        return [
            self._group(portion, number, generator, f"{request.round_index}/{portion.pool}/{number}")
            for portion in request.portions
            for number in range(portion.first, portion.first + portion.tasks)
        ]

    def _group(self, portion: Portion, number: int, generator: torch.Generator, name: str) -> ScoredGroup:
        symbols = POOLS[portion.pool]
        group: ScoredGroup = self.task._group(symbols[number % len(symbols)], generator, name)
        members = tuple(replace(member, succeeded=member.turn_rewards == (1.0,)) for member in group.members)
        return replace(group, task=replace(group.task, family=portion.pool), members=members)


def collect_of(model: PreTrainedModel, toy: Toy, tasks: int = 5) -> tuple[CurriculumCollect, Desk]:
    desk = Desk(toy(model, group_size=12))
    return CurriculumCollect(Curriculum(LEVELS, PLAN, seed=0), desk.sample_groups, tasks), desk


def test_each_iteration_samples_the_curriculums_choice_and_observes_the_outcomes(
    tiny_model: Model, copy_task: Toy
) -> None:
    collect, desk = collect_of(tiny_model(), copy_task)
    groups = collect(0)
    assert desk.requests == [SampleRequest(0, 0, [Portion("low", 0, 4), Portion("high", 0, 1)])]
    assert [group.task.family for group in groups] == ["low"] * 4 + ["high"]
    trajectories = sum(len(group.members) for group in groups if group.task.family == "low")
    assert collect.state()["window.attempts.0.low"] == trajectories == 48
    collect.refill(0, 1)
    assert desk.requests[1] == SampleRequest(0, 1, [Portion("low", 4, 4), Portion("high", 1, 1)])
    assert collect.state()["window.attempts.0.low"] == 96


def _train(
    model: PreTrainedModel, toy: Toy, folder: Path, *, kill_at: int = 0, tasks: int = 5, **changes: Any
) -> Desk:
    def kill(point: CurvePoint) -> None:
        if point.units == kill_at:
            raise _KilledError

    collect, desk = collect_of(model, toy, tasks)
    settings = replace(RL, **changes)
    refill = None if settings.dynamic_sampling is None else collect.refill
    run_grpo(model, collect, settings, RunOptions(0, folder, progress=kill), refill=refill)
    return desk


class _KilledError(Exception):
    """Stops a run in a test."""


@pytest.mark.parametrize("sampling", [None, DynamicSamplingSettings(4, 2)], ids=["once", "dynamic"])
@pytest.mark.parametrize(("kill_at", "every"), [(1, 1), (4, 3), (5, 2)])
def test_a_run_with_a_curriculum_resumes_bitwise(
    tiny_model: Model,
    copy_task: Toy,
    tmp_path: Path,
    kill_at: int,
    every: int,
    sampling: DynamicSamplingSettings | None,
) -> None:
    """The same tasks by number, the same weights and the same curve."""
    how: dict[str, Any] = {"checkpoint_every": every, "dynamic_sampling": sampling}
    calm, resumed = tiny_model(), tiny_model()
    expected = _train(calm, copy_task, tmp_path / "calm", **how)
    with pytest.raises(_KilledError):
        _train(tiny_model(), copy_task, tmp_path / "shaken", kill_at=kill_at, **how)
    resumed_desk = _train(resumed, copy_task, tmp_path / "shaken", **how)
    done = (kill_at - 1) // every * every
    assert resumed_desk.requests == [request for request in expected.requests if request.iteration >= done]
    others = weight_tensors(calm)
    assert all(torch.equal(tensor, others[name]) for name, tensor in weight_tensors(resumed).items())
    curves = [
        [
            {name: value for name, value in point.metrics.items() if name not in UNREPEATED}
            for point in read_curve(tmp_path / name / CURVE_FILE)
        ]
        for name in ("calm", "shaken")
    ]
    assert curves[0] == curves[1]


def test_a_run_with_another_curriculum_is_refused(tiny_model: Model, copy_task: Toy, tmp_path: Path) -> None:
    _train(tiny_model(), copy_task, tmp_path, iterations=1)
    with pytest.raises(
        TrainingError, match="belongs to another run: curriculum tasks is '6', the checkpoint has '5'"
    ):
        _train(tiny_model(), copy_task, tmp_path, iterations=1, tasks=6)


@pytest.mark.slow
def test_levels_are_learned_one_after_the_other_and_none_is_forgotten(
    tiny_model: Model, copy_task: Toy, tmp_path: Path
) -> None:
    """The optimum is 1 for all four symbols; half of them are rarely sampled before the others are learned."""
    model = tiny_model()
    _train(model, copy_task, tmp_path, iterations=60, tasks=6)
    assert copy_task(model).score(0) >= 0.95
    curve = [point.metrics for point in read_curve(tmp_path / CURVE_FILE)]
    assert {name for item in curve for name in item if metric_of(name) is None} == set()
    levels = [item["curriculum_level"] for item in curve]
    assert (levels[0], levels[-1]) == (1.0, 2.0)
    assert levels == sorted(levels, key=float)  # type: ignore[arg-type]
    assert curve[0]["sampled_level_1"] == 0.8
    advanced = levels.index(2.0)
    assert curve[advanced]["sampled_level_1"] == pytest.approx(0.15)
    assert curve[advanced]["best_level_1"] >= 0.7  # type: ignore[operator]
    assert curve[-1]["curriculum_final"] == 1.0
