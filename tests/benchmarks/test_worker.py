"""Sides in processes: the conversation, their environment variables, their memory, and how they die."""

from pathlib import Path

import pytest

from benchmarks.worker import TUNED_ALLOCATOR, Worker, side_environment
from upturn.errors import MeasurementError

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(HERE))


def test_a_side_gets_its_settings_and_is_asked_step_by_step() -> None:
    with Worker("fake_implementations:counting", {"a": [1, "ü"]}, threads=3) as worker:
        assert worker.prepared.values["settings"] == {"a": [1, "ü"]}
        assert worker.prepared.values["OMP_NUM_THREADS"] == "3"
        assert [worker.step().seconds for _ in range(3)] == [1.0, 2.0, 3.0]


def test_two_sides_live_at_once() -> None:
    with (
        Worker("fake_implementations:counting", {}, threads=1) as first,
        Worker("fake_implementations:counting", {}, threads=1) as second,
    ):
        assert [first.step().seconds, second.step().seconds, first.step().seconds] == [1.0, 1.0, 2.0]


def test_only_the_asked_allocator_reaches_a_side(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MALLOC_ARENA_MAX", "1")
    with Worker("fake_implementations:counting", {}, 1, TUNED_ALLOCATOR) as worker:
        assert worker.prepared.values["MALLOC_MMAP_MAX_"] == "0"
        assert worker.prepared.values["MALLOC_ARENA_MAX"] == ""


def test_everything_else_is_inherited() -> None:
    found = side_environment({"HOME": "/h", "OMP_NUM_THREADS": "9", "MALLOC_PERTURB_": "1"}, 2, {})
    assert (found["HOME"], found["OMP_NUM_THREADS"]) == ("/h", "2")
    assert not any(name.startswith("MALLOC") for name in found)


def test_memory_of_a_step_is_what_it_held_at_most_and_gave_back() -> None:
    size = 64 * 2**20
    with Worker("fake_implementations:holding", {"bytes": size}, threads=1) as worker:
        peaks = [worker.step().peak_bytes for _ in range(2)]
    assert all(0.95 * size < peak < 1.5 * size for peak in peaks)  # the kernel counts in lots of pages


def test_what_a_side_raises_is_told_with_its_trace() -> None:
    with (
        pytest.raises(
            MeasurementError, match=r"'fake_implementations:failing' failed: ValueError: these settings(.|\n)*line"
        ),
        Worker("fake_implementations:failing", {}, threads=1),
    ):
        pytest.fail("the block must not be entered")


def test_a_side_that_is_killed_is_told_with_what_it_printed() -> None:
    with (
        Worker("fake_implementations:dying", {}, threads=1) as worker,
        pytest.raises(MeasurementError, match=r"signal 9; there may be too little memory(.|\n)*out of everything"),
    ):
        worker.step()


def test_a_side_that_does_not_exist_is_told() -> None:
    with pytest.raises(MeasurementError, match="no_such_module"), Worker("no_such_module:side", {}, threads=1):
        pytest.fail("the block must not be entered")
