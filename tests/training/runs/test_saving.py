"""When a run is saved: by count, by time, before an error ends it, and when it is interrupted."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import PreTrainedModel

from upturn.config import OptimiserSettings
from upturn.training import IterationSettings, TrainingRow
from upturn.training.distributed.weights import copy_tensors, trained_tensors, weight_tensors
from upturn.training.losses import CrossEntropy
from upturn.training.optimisation.trainer import Trainer
from upturn.training.runs import RunOptions, RunPlan, read_curve
from upturn.training.runs.checkpoint import latest_checkpoint
from upturn.training.runs.curve import CurvePoint, Progress
from upturn.training.runs.interruption import deferred, terminable
from upturn.training.runs.run import Run, identity_of
from upturn.training.runs.run_folder import CHECKPOINTS_FOLDER, CURVE_FILE
from upturn.training.stream import State, Stream, Unit

Model = Callable[..., PreTrainedModel]
UNITS = 6


@pytest.fixture(autouse=True)
def interruptible() -> Iterator[None]:
    """Ctrl-C raises KeyboardInterrupt, also in a process that was started with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class _BrokenError(Exception):
    """Ends a run in a test."""


class Clock:
    """Seconds that pass while a unit is built."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.now = 1_000.0
        self.seconds = seconds

    def __call__(self) -> float:
        return self.now


class Adapting:
    """One row whose weight depends on all units so far; ``at`` is called while the unit of that index is built."""

    def __init__(self, clock: Clock, at: tuple[int, Callable[[], None]] | None = None) -> None:
        self.clock = clock
        self.at = at
        self.weight = 1.0

    def unit(self, index: int) -> Unit:
        self.clock.now += self.clock.seconds
        self.weight = self.weight * 1.3 + 0.1 * index
        if self.at is not None and index == self.at[0]:
            self.at[1]()
        weights = np.full(3, self.weight, dtype=np.float32)
        row = TrainingRow("t", np.array([1, 5, 2, 7, 3]), np.array([2, 3, 4]), weights, None)
        return Unit([[Stream([row], CrossEntropy(), 3.0)]], {"weight": self.weight})

    def state(self) -> State:
        return {"weight": self.weight}

    def load_state(self, state: State) -> None:
        self.weight = float(state["weight"])


def _run(
    model: PreTrainedModel,
    folder: Path,
    *,
    algorithm: Adapting | None = None,
    progress: Progress | None = None,
    **plan: object,
) -> PreTrainedModel:
    algorithm = algorithm or Adapting(Clock())
    trainer = Trainer(model, OptimiserSettings(learning_rate=1e-2))
    defaults: dict[str, object] = {
        "units": UNITS,
        "evaluate_every": None,
        "checkpoint_every": None,
        "keep": "final",
    }
    run_plan = RunPlan(**(defaults | plan))  # type: ignore[arg-type]
    identity = identity_of(trainer, "toy", trainer.settings)
    Run(trainer, algorithm, run_plan, identity, RunOptions(0, folder, progress=progress), algorithm.clock).finish()
    return model


def _saved(folder: Path) -> int | None:
    """Units of the latest checkpoint."""
    latest = latest_checkpoint(folder / CHECKPOINTS_FOLDER)
    return None if latest is None else int(latest.name)


def _saved_units(model: PreTrainedModel, folder: Path, seconds_a_unit: float, **plan: object) -> list[int]:
    """Units after which a run of six units was saved."""
    algorithm = Adapting(Clock(seconds_a_unit))
    seen: list[int | None] = []

    def look(_: CurvePoint) -> None:
        seen.append(_saved(folder))

    _run(model, folder, algorithm=algorithm, progress=look, **plan)
    return [units for units in dict.fromkeys([*seen, _saved(folder)]) if units is not None]


def _is_equal(first: PreTrainedModel, second: PreTrainedModel) -> bool:
    others = weight_tensors(second)
    return all(torch.equal(tensor, others[name]) for name, tensor in weight_tensors(first).items())


@pytest.mark.parametrize(
    ("plan", "units"),
    [
        ({"checkpoint_seconds": None}, [6]),
        ({"checkpoint_seconds": 25.0}, [3, 6]),
        ({"checkpoint_seconds": 20.0}, [2, 4, 6]),
        ({"checkpoint_seconds": 0.1}, [1, 2, 3, 4, 5, 6]),
        ({"checkpoint_seconds": None, "checkpoint_every": 4}, [4, 6]),
        # 4 by count; the time counts from there, so that 5 and 6 are too early for it
        ({"checkpoint_seconds": 30.0, "checkpoint_every": 4}, [3, 4, 6]),
        ({}, [6]),
    ],
)
def test_a_run_is_saved_by_count_by_time_and_at_its_end(
    tiny_model: Model, tmp_path: Path, plan: dict[str, object], units: list[int]
) -> None:
    assert _saved_units(tiny_model(), tmp_path, 10.0, **plan) == units


def test_iterations_are_saved_by_time_by_default() -> None:
    settings = IterationSettings()
    assert (settings.checkpoint_every, settings.checkpoint_seconds, settings.checkpoints_kept) == (None, 300.0, 1)


@pytest.mark.parametrize("seconds", [5.0, 10.0, 19.0, 40.0])
@pytest.mark.parametrize("killed_at", range(1, UNITS))
def test_the_clock_does_not_affect_the_weights(
    tiny_model: Model, tmp_path: Path, killed_at: int, seconds: float
) -> None:
    calm = _run(tiny_model(), tmp_path / "calm")

    def kill(point: CurvePoint) -> None:
        if point.units == killed_at:
            raise _BrokenError

    with pytest.raises(_BrokenError):
        _run(
            tiny_model(),
            tmp_path / "shaken",
            algorithm=Adapting(Clock(seconds)),
            progress=kill,
            checkpoint_seconds=20.0,
        )
    assert _saved(tmp_path / "shaken") == {5.0: None if killed_at <= 4 else 4, 40.0: killed_at - 1 or None}.get(
        seconds, (killed_at - 1) // 2 * 2 or None
    )
    resumed = _run(tiny_model(), tmp_path / "shaken", checkpoint_every=1, checkpoints_kept=2)
    assert _is_equal(calm, resumed)
    assert [point.units for point in read_curve(tmp_path / "shaken" / CURVE_FILE)] == [1, 2, 3, 4, 5, 6]


def _break() -> None:
    raise _BrokenError


def _raise_signal(number: signal.Signals) -> Callable[[], None]:
    return lambda: signal.raise_signal(number)


@pytest.mark.parametrize("failed_at", range(UNITS))
@pytest.mark.parametrize(
    ("fail", "error"),
    [
        (_break, _BrokenError),
        (_raise_signal(signal.SIGINT), KeyboardInterrupt),
        (_raise_signal(signal.SIGTERM), KeyboardInterrupt),
    ],
    ids=["error", "Ctrl-C", "SIGTERM"],
)
def test_what_is_finished_is_saved_before_an_error_or_interrupt_of_sampling(
    tiny_model: Model, tmp_path: Path, failed_at: int, fail: Callable[[], None], error: type[BaseException]
) -> None:
    with pytest.raises(error):
        _run(tiny_model(), tmp_path / "failed", algorithm=Adapting(Clock(), (failed_at, fail)))
    assert _saved(tmp_path / "failed") == (failed_at or None)
    assert _is_equal(_run(tiny_model(), tmp_path / "failed"), _run(tiny_model(), tmp_path / "calm"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("interrupted_at", range(1, UNITS + 1))
def test_an_interrupt_outside_sampling_finishes_the_unit_and_saves_it(
    tiny_model: Model, tmp_path: Path, interrupted_at: int, number: signal.Signals
) -> None:
    def interrupt(point: CurvePoint) -> None:
        if point.units == interrupted_at:
            signal.raise_signal(number)

    with pytest.raises(KeyboardInterrupt):
        _run(tiny_model(), tmp_path / "failed", progress=interrupt)
    assert _saved(tmp_path / "failed") == interrupted_at
    assert _is_equal(_run(tiny_model(), tmp_path / "failed"), _run(tiny_model(), tmp_path / "calm"))


def test_a_second_interrupt_does_not_wait(tiny_model: Model, tmp_path: Path) -> None:
    def interrupt(_: CurvePoint) -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        raise AssertionError("the second one did not end it")

    with pytest.raises(KeyboardInterrupt):
        _run(tiny_model(), tmp_path, progress=interrupt)
    assert _saved(tmp_path) is None


class Restarting(Adapting):
    """Changes the weights while it builds a unit, before it fails."""

    def __init__(self, model: PreTrainedModel) -> None:
        def spoil() -> None:
            with torch.no_grad():
                next(iter(model.parameters())).add_(1.0)
            raise _BrokenError

        super().__init__(Clock(), (3, spoil))


class Tensors(Adapting):
    """Has a tensor in its state, which may change in place."""

    def state(self) -> State:
        return {"weight": torch.tensor(self.weight, dtype=torch.float64)}


@pytest.mark.parametrize("kind", [Restarting, Tensors])
def test_nothing_is_saved_where_the_state_may_have_changed(
    tiny_model: Model, tmp_path: Path, kind: type[Adapting]
) -> None:
    """The weights differ, or the algorithm's state has tensors."""
    model = tiny_model()
    algorithm = Restarting(model) if kind is Restarting else Tensors(Clock(), (3, _break))
    with pytest.raises(_BrokenError):
        _run(model, tmp_path / "failed", algorithm=algorithm, checkpoint_every=2)
    assert _saved(tmp_path / "failed") == 2
    resuming = Adapting(Clock()) if kind is Restarting else Tensors(Clock())
    resumed = _run(tiny_model(), tmp_path / "failed", algorithm=resuming)
    assert _is_equal(resumed, _run(tiny_model(), tmp_path / "calm"))


@pytest.fixture
def handlers() -> Iterator[None]:
    """Checks that a test leaves the handlers of signals as they were."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    assert {number: signal.getsignal(number) for number in before} == before


def test_handlers_are_restored_and_others_are_respected(handlers: None) -> None:
    with terminable(), deferred() as deferral:
        signal.raise_signal(signal.SIGTERM)
        assert deferral.is_asked
    with pytest.raises(KeyboardInterrupt), terminable(), deferred():
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
    seen: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: seen.append(number))
    try:
        with terminable(), deferred() as deferral:
            signal.raise_signal(signal.SIGTERM)
        assert not deferral.is_asked
    finally:
        signal.signal(signal.SIGTERM, before)
    assert seen == [signal.SIGTERM]


def test_sigterm_cancels_tasks_as_ctrl_c_does_and_works_where_that_is_ignored(handlers: None) -> None:
    ends: list[str] = []

    async def sample() -> None:
        try:
            signal.raise_signal(signal.SIGTERM)
            await asyncio.sleep(30)
        except BaseException as exc:
            ends.append(type(exc).__name__)
            raise

    with pytest.raises(KeyboardInterrupt), terminable():
        asyncio.run(sample())
    assert ends == ["CancelledError"]
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as in a background job of a shell
    try:
        with pytest.raises(KeyboardInterrupt), terminable():
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGINT, before)


def test_frozen_weights_are_not_stored(tiny_model: Model, tmp_path: Path) -> None:
    def frozen() -> PreTrainedModel:
        model = tiny_model(layers=2)
        for name, parameter in model.named_parameters():
            parameter.requires_grad = name.startswith("model.layers.1.")
        return model

    calm = _run(frozen(), tmp_path / "calm")
    kept = trained_tensors(calm)
    assert all(name.startswith("model.layers.1.") for name in kept)
    stored = tmp_path / "calm" / CHECKPOINTS_FOLDER / f"{UNITS:06d}" / "weights.safetensors"
    numbers = sum(tensor.numel() for tensor in kept.values())
    assert 4 * numbers < stored.stat().st_size < 4 * numbers + 2_000
    with pytest.raises(_BrokenError):
        _run(frozen(), tmp_path / "failed", algorithm=Adapting(Clock(), (4, _break)))
    before = copy_tensors(weight_tensors(frozen()))
    resumed = _run(frozen(), tmp_path / "failed")
    assert _is_equal(resumed, calm)
    assert all(
        torch.equal(before[name], tensor) for name, tensor in weight_tensors(resumed).items() if name not in kept
    )


def test_checkpoint_settings_are_no_part_of_the_identity(tiny_model: Model) -> None:
    trainer = Trainer(tiny_model(), OptimiserSettings())
    settings = IterationSettings()
    others = replace(settings, checkpoint_every=3, checkpoint_seconds=None, checkpoints_kept=2)
    assert identity_of(trainer, "toy", settings) == identity_of(trainer, "toy", others)
    assert identity_of(trainer, "toy", settings) != identity_of(trainer, "toy", replace(settings, iterations=3))
