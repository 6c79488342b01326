"""Workers: requests and responses, environment variables, memory and failures."""

from pathlib import Path

import pytest

from benchmarks.worker import TUNED_ALLOCATOR, Worker, worker_environment
from upturn.errors import MeasurementError

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(HERE))


def test_worker_gets_its_settings_and_makes_one_step_per_request() -> None:
    with Worker("fake_implementations:counting", {"a": [1, "ü"]}, threads=3) as worker:
        assert worker.prepared.values["settings"] == {"a": [1, "ü"]}
        assert worker.prepared.values["OMP_NUM_THREADS"] == "3"
        assert [worker.step().seconds for _ in range(3)] == [1.0, 2.0, 3.0]


def test_two_workers_run_at_once() -> None:
    with (
        Worker("fake_implementations:counting", {}, threads=1) as first,
        Worker("fake_implementations:counting", {}, threads=1) as second,
    ):
        assert [first.step().seconds, second.step().seconds, first.step().seconds] == [1.0, 1.0, 2.0]


def test_worker_gets_only_the_requested_allocator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MALLOC_ARENA_MAX", "1")
    with Worker("fake_implementations:counting", {}, 1, TUNED_ALLOCATOR) as worker:
        assert worker.prepared.values["MALLOC_MMAP_MAX_"] == "0"
        assert worker.prepared.values["MALLOC_ARENA_MAX"] == ""


def test_other_environment_variables_are_inherited() -> None:
    environment = worker_environment({"HOME": "/h", "OMP_NUM_THREADS": "9", "MALLOC_PERTURB_": "1"}, 2, {})
    assert (environment["HOME"], environment["OMP_NUM_THREADS"]) == ("/h", "2")
    assert not any(name.startswith("MALLOC") for name in environment)


def test_memory_of_a_step_is_its_peak_beyond_the_baseline() -> None:
    size = 64 * 2**20
    with Worker("fake_implementations:holding", {"bytes": size}, threads=1) as worker:
        peaks = [worker.step().peak_bytes for _ in range(2)]
    assert all(0.95 * size < peak < 1.5 * size for peak in peaks)  # the kernel counts in lots of pages


def test_exception_of_a_worker_is_reported_with_its_trace() -> None:
    with (
        pytest.raises(
            MeasurementError, match=r"'fake_implementations:failing' failed: ValueError: these settings(.|\n)*line"
        ),
        Worker("fake_implementations:failing", {}, threads=1),
    ):
        pytest.fail("the block must not be entered")


def test_killed_worker_is_reported_with_its_output() -> None:
    with (
        Worker("fake_implementations:dying", {}, threads=1) as worker,
        pytest.raises(MeasurementError, match=r"signal 9; there may be too little memory(.|\n)*out of everything"),
    ):
        worker.step()


def test_unknown_implementation_is_reported() -> None:
    with pytest.raises(MeasurementError, match="no_such_module"), Worker("no_such_module:function", {}, threads=1):
        pytest.fail("the block must not be entered")
