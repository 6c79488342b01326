"""Sampling ahead: which weights an iteration comes from, and that stopping in between changes nothing."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from upturn.config import OptimiserSettings
from upturn.errors import TrainingError
from upturn.models.engine import weights_hash
from upturn.training.advantage import ScoredGroup, ScoredTrajectory
from upturn.training.algorithms.grpo import GrpoSettings, run_grpo
from upturn.training.data.async_rollouts import AheadCollect
from upturn.training.distributed.weights import restore_weights, weight_tensors
from upturn.training.outcome import TrainingOutcome
from upturn.training.runs import RunOptions
from upturn.training.runs.curve import read_curve
from upturn.training.runs.run_folder import CURVE_FILE

Model = Callable[..., PreTrainedModel]
Toy = Callable[..., Any]

ITERATIONS = 7


class Sampler:
    """The copy task on a separate model, which gets the sampling weights."""

    def __init__(self, task: Any, *, delays: Sequence[float] = (), stop_at: int | None = None) -> None:
        self.task = task
        self.delays = delays
        self.stop_at = stop_at
        self.used: dict[int, str] = {}
        """By iteration, the hash of the weights that it was sampled with."""
        self.threads: set[int] = set()

    def __call__(self, iteration: int, weights: Mapping[str, Tensor]) -> list[ScoredGroup]:
        if iteration == self.stop_at:
            raise _StopError
        if self.delays:
            time.sleep(self.delays[iteration % len(self.delays)])
        restore_weights(self.task.model, weights)
        self.threads.add(threading.get_ident())
        self.used[iteration] = weights_hash(self.task.model)
        return stamped(self.task.collect(iteration), self.used[iteration])


def stamped(groups: Sequence[ScoredGroup], version: str) -> list[ScoredGroup]:
    return [
        replace(
            group,
            members=tuple(
                replace(member, trajectory=replace(member.trajectory, model_version=version))
                for member in group.members
            ),
        )
        for group in groups
    ]


def settings(**changes: Any) -> GrpoSettings:
    base = GrpoSettings(
        iterations=ITERATIONS,
        optimiser=OptimiserSettings(learning_rate=5e-3),
        evaluate_every=None,
        keep="final",
        checkpoint_every=1,
    )
    return replace(base, **changes)


def train(
    model: PreTrainedModel, sampler: Sampler, folder: Path, *, staleness: int = 1, **changes: Any
) -> TrainingOutcome:
    chosen = settings(**changes)
    with AheadCollect(model, sampler, staleness=staleness, iterations=chosen.iterations) as collect:
        return run_grpo(model, collect, chosen, RunOptions(3, folder))


def equal(first: PreTrainedModel, second: PreTrainedModel) -> bool:
    others = weight_tensors(second)
    return all(torch.equal(tensor, others[name]) for name, tensor in weight_tensors(first).items())


@pytest.mark.parametrize("staleness", [1, 2, 3, 20])
def test_iteration_i_is_sampled_with_exactly_the_weights_after_i_minus_staleness_iterations(
    tiny_model: Model, copy_task: Toy, tmp_path: Path, staleness: int
) -> None:
    model, sampler = tiny_model(), Sampler(copy_task(tiny_model(seed=9)))
    after: list[str] = []

    class RecordingCollect(AheadCollect):
        def __call__(self, iteration: int, /) -> Sequence[ScoredGroup]:
            after.append(weights_hash(model))
            return super().__call__(iteration)

    with RecordingCollect(model, sampler, staleness=staleness, iterations=ITERATIONS) as collect:
        run_grpo(model, collect, settings(), RunOptions(3, tmp_path))
    assert len(set(after)) >= ITERATIONS - 1  # an iteration without signal takes no step
    assert [sampler.used[i] for i in range(ITERATIONS)] == [after[max(0, i - staleness)] for i in range(ITERATIONS)]
    assert threading.get_ident() not in sampler.threads
    reported = [point.metrics["staleness"] for point in read_curve(tmp_path / CURVE_FILE)]
    assert reported == [min(i, staleness) for i in range(ITERATIONS)]


@pytest.mark.parametrize("staleness", [1, 2])
def test_timing_changes_nothing(tiny_model: Model, copy_task: Toy, tmp_path: Path, staleness: int) -> None:
    models = [tiny_model() for _ in range(3)]
    for index, delays in enumerate(((), (0.03, 0.0), (0.0, 0.0, 0.05))):
        sampler = Sampler(copy_task(tiny_model()), delays=delays)
        train(models[index], sampler, tmp_path / str(index), staleness=staleness)
    assert equal(models[0], models[1]) and equal(models[0], models[2])
    plain = copy_task(tiny_model())
    run_grpo(plain.model, plain.collect, settings(), RunOptions(3, tmp_path / "plain"))
    assert not equal(models[0], plain.model)


class _StopError(Exception):
    """Stops a run in a test."""


@pytest.mark.parametrize("staleness", [1, pytest.param(2, marks=pytest.mark.slow), 20])
@pytest.mark.parametrize(
    ("stop_at", "every"),
    [
        (0, 1),
        pytest.param(1, 1, marks=pytest.mark.slow),
        (3, 1),
        pytest.param(5, 2, marks=pytest.mark.slow),
        (6, 3),
    ],
)
def test_a_resumed_run_has_bitwise_the_weights_of_an_uninterrupted_one(
    tiny_model: Model, copy_task: Toy, tmp_path: Path, staleness: int, stop_at: int, every: int
) -> None:
    undisturbed, resumed = tiny_model(), tiny_model()
    train(
        undisturbed, Sampler(copy_task(tiny_model())), tmp_path / "a", staleness=staleness, checkpoint_every=every
    )

    stopping = Sampler(copy_task(tiny_model()), stop_at=stop_at)
    with pytest.raises(_StopError):
        train(tiny_model(), stopping, tmp_path / "b", staleness=staleness, checkpoint_every=every)
    train(resumed, Sampler(copy_task(tiny_model())), tmp_path / "b", staleness=staleness, checkpoint_every=every)
    assert equal(undisturbed, resumed)


def test_copying_is_learned_from_rollouts_two_iterations_old(
    tiny_model: Model, copy_task: Toy, tmp_path: Path
) -> None:
    model = tiny_model()
    train(model, Sampler(copy_task(tiny_model())), tmp_path, staleness=2, iterations=60, checkpoint_every=60)
    assert copy_task(model).score(0) >= 0.95
    gaps = [point.metrics.get("max_logprob_gap") or 0.0 for point in read_curve(tmp_path / CURVE_FILE)]
    assert 0 < gaps[0] < 1e-5  # its first minibatch met the weights that had sampled it
    assert max(gaps[2:]) > 1e-3


def test_a_run_with_another_staleness_is_refused(tiny_model: Model, copy_task: Toy, tmp_path: Path) -> None:
    train(tiny_model(), Sampler(copy_task(tiny_model())), tmp_path, staleness=1)
    with pytest.raises(TrainingError, match="staleness is '2', the checkpoint has '1'"):
        train(tiny_model(), Sampler(copy_task(tiny_model())), tmp_path, staleness=2)
    task = copy_task(tiny_model())
    with pytest.raises(TrainingError, match="staleness is None, the checkpoint has '1'"):
        run_grpo(task.model, task.collect, settings(), RunOptions(3, tmp_path))


@pytest.mark.parametrize("mistake", ["never refreshed", "present weights", "no version"])
def test_rows_sampled_with_other_weights_are_refused_by_name(
    tiny_model: Model, copy_task: Toy, tmp_path: Path, mistake: str
) -> None:
    """Older weights; those of the trained model, which would depend on timing; and unknown ones."""
    model = tiny_model()
    first, task = weights_hash(model), copy_task(tiny_model())
    present: list[str] = []
    is_asked = threading.Event()

    def sample(iteration: int, weights: Mapping[str, Tensor]) -> list[ScoredGroup]:
        restore_weights(task.model, weights)
        version = weights_hash(task.model)
        if iteration == 3:
            is_asked.wait()
            version = {"never refreshed": first, "present weights": present[-1], "no version": ""}[mistake]
        return stamped(task.collect(iteration), version)

    class RecordingCollect(AheadCollect):
        def __call__(self, iteration: int, /) -> Sequence[ScoredGroup]:
            present.append(weights_hash(model))
            if iteration == 3:
                is_asked.set()
            return super().__call__(iteration)

    with (
        RecordingCollect(model, sample, staleness=2, iterations=ITERATIONS) as collect,
        pytest.raises(TrainingError) as caught,
    ):
        run_grpo(model, collect, settings(), RunOptions(3, tmp_path))
    message = str(caught.value)
    assert "trajectory '0/3/0' of iteration 3 was sampled with weights " in message
    assert ("weights of unknown version" in message) == (mistake == "no version")
    assert f"must be that of the weights after 1 iterations, {present[1]!r}" in message


def test_a_trajectory_without_a_generation_needs_no_version(
    tiny_model: Model, copy_task: Toy, tmp_path: Path
) -> None:
    model, task = tiny_model(), copy_task(tiny_model())

    def sample(iteration: int, weights: Mapping[str, Tensor]) -> list[ScoredGroup]:
        restore_weights(task.model, weights)
        first, *others = stamped(task.collect(iteration), weights_hash(task.model))
        broken, *rest = first.members
        empty = replace(broken.trajectory, model_version="", rows=(), turns=(), outcome="model_error")
        return [replace(first, members=(ScoredTrajectory(empty, None), *rest)), *others]

    with AheadCollect(model, sample, staleness=1, iterations=2) as collect:
        run_grpo(model, collect, settings(iterations=2), RunOptions(3, tmp_path))
    assert [point.metrics["unscorable"] for point in read_curve(tmp_path / CURVE_FILE)] == [1.0, 1.0]


def test_sampling_errors_are_raised_at_their_iteration(tiny_model: Model, copy_task: Toy, tmp_path: Path) -> None:
    model, task = tiny_model(), copy_task(tiny_model())

    def breaking(iteration: int, weights: Mapping[str, Tensor]) -> list[ScoredGroup]:
        if iteration == 3:
            raise OSError("the disk is full")
        restore_weights(task.model, weights)
        return stamped(task.collect(iteration), weights_hash(task.model))

    with (
        AheadCollect(model, breaking, staleness=2, iterations=ITERATIONS) as collect,
        pytest.raises(OSError, match="the disk is full"),
    ):
        run_grpo(model, collect, settings(), RunOptions(3, tmp_path))
    assert [point.units for point in read_curve(tmp_path / CURVE_FILE)] == [1, 2, 3]


def test_unusable_settings_are_refused(tiny_model: Model, copy_task: Toy, tmp_path: Path) -> None:
    model, task = tiny_model(), copy_task(tiny_model())
    with pytest.raises(TrainingError, match="staleness must be at least 1 to sample ahead, got 0"):
        AheadCollect(model, Sampler(task), staleness=0, iterations=3)
    with pytest.raises(TrainingError, match="iterations must be at least 1, got 0"):
        AheadCollect(model, Sampler(task), staleness=1, iterations=0)
    with (
        AheadCollect(model, Sampler(task), staleness=1, iterations=ITERATIONS) as collect,
        pytest.raises(TrainingError, match="the weights after 2 iterations, which are missing"),
    ):
        collect(3)
    from upturn.training.policy_settings import DynamicSamplingSettings

    dynamic = settings(dynamic_sampling=DynamicSamplingSettings(max_rounds=2))
    with (
        AheadCollect(model, Sampler(task), staleness=1, iterations=ITERATIONS) as collect,
        pytest.raises(TrainingError, match="dynamic sampling uses the present weights"),
    ):
        run_grpo(model, collect, dynamic, RunOptions(3, tmp_path), refill=task.refill)
