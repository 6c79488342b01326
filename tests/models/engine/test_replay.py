"""Recorded passes, with a recorder that computes again in place of a CUDA graph. In an engine: ``test_device``."""

from dataclasses import dataclass, field
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from upturn.models.engine import replay
from upturn.models.engine.replay import Replays, Run


class Given(NamedTuple):
    values: Tensor
    factor: int
    more: dict[str, list[Tensor | None]]


@dataclass
class Recorder:
    """Replays by computing on the fixed inputs."""

    recorded: int = 0
    replayed: int = 0
    problem: Exception | None = field(default=None, repr=False)

    def __call__(self, run: Run) -> Run:
        if self.problem is not None:
            raise self.problem
        self.recorded += 1

        def again() -> Tensor:
            self.replayed += 1
            return run()

        return again


def _given(start: float, *, count: int = 3, factor: int = 2) -> Given:
    return Given(torch.arange(count) + start, factor, {"added": [torch.full((1,), start), None]})


def _compute(given: Given) -> Tensor:
    added = given.more["added"][0]
    assert added is not None
    return given.values * given.factor + added


def test_the_third_pass_of_a_shape_is_recorded_and_later_ones_are_replayed_with_their_inputs() -> None:
    recorder = Recorder()
    replays = Replays(recorder)
    for start in range(6):
        result = replays.run(_compute, _given(float(start)))
        assert result.tolist() == [3.0 * start, 3.0 * start + 2, 3.0 * start + 4]
    assert (recorder.recorded, recorder.replayed) == (1, 3)


@pytest.mark.parametrize("other", [{"count": 4}, {"factor": 3}])
def test_other_shapes_and_other_values_are_other_passes(other: dict[str, int]) -> None:
    recorder = Recorder()
    replays = Replays(recorder)
    for start in range(4):
        replays.run(_compute, _given(float(start)))
    expected = _compute(_given(1.0, **other))
    assert torch.equal(replays.run(_compute, _given(1.0, **other)), expected)
    assert (recorder.recorded, recorder.replayed) == (1, 1)


def test_the_least_recently_used_pass_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "_RECORDED", 2)
    recorder = Recorder()
    replays = Replays(recorder)
    for count in (1, 2, 3):
        for _ in range(3):
            replays.run(_compute, _given(0.0, count=count))
    for count in (2, 3):
        replays.run(_compute, _given(0.0, count=count))
    assert (recorder.recorded, recorder.replayed) == (3, 2)
    replays.run(_compute, _given(0.0, count=1))
    assert recorder.replayed == 2


def test_a_device_that_cannot_record_is_asked_once() -> None:
    recorder = Recorder(problem=RuntimeError("capture failed"))
    replays = Replays(recorder)
    expected = _compute(_given(1.0))
    with pytest.warns(RuntimeWarning, match="not recorded .*: RuntimeError: capture failed"):
        results = [replays.run(_compute, _given(1.0)) for _ in range(3)]
    results += [replays.run(_compute, _given(1.0)) for _ in range(3)]  # warnings are errors
    assert all(torch.equal(result, expected) for result in results)
