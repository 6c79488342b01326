"""Trackers get every point once, in order, and cannot disturb a run."""

import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest
from transformers import PreTrainedModel

from upturn.errors import TrainingError
from upturn.models.engine import weights_hash
from upturn.records import Trajectory
from upturn.training import supervised_rows
from upturn.training.algorithms.sft import SftSettings, run_sft
from upturn.training.runs import RunOptions, Tracking, read_curve, register_tracker
from upturn.training.runs.curve import CurvePoint
from upturn.training.runs.run_folder import CURVE_FILE
from upturn.training.runs.trackers import RunEnd, TrackedRun, TrackerFeed, registry

Model = Callable[..., PreTrainedModel]
Make = Callable[..., Trajectory]


@dataclass
class Service:
    """A service that is down while ``fails`` is True."""

    opened: list[TrackedRun] = field(default_factory=list)
    points: dict[str, list[int]] = field(default_factory=dict)
    """Units by id, in the order of arrival."""
    values: list[Mapping[str, float]] = field(default_factory=list)
    ends: list[RunEnd] = field(default_factory=list)
    fails: bool = False
    waits: threading.Event | None = None
    """Answers only when it is set; None = at once."""

    def open(self, run: TrackedRun) -> "Fake":
        if self.fails:
            raise ConnectionError("the service is down")
        self.opened.append(run)
        return Fake(self, run.id or f"run-{len(self.opened)}")


@dataclass
class Fake:
    """A tracker of the service."""

    service: Service
    id: str

    def log(self, units: int, values: Mapping[str, float]) -> None:
        if self.service.waits is not None:
            assert self.service.waits.wait(30)
        if self.service.fails:
            raise ConnectionError("the service is down")
        self.service.points.setdefault(self.id, []).append(units)
        self.service.values.append(values)

    def close(self, end: RunEnd) -> None:
        self.service.ends.append(end)


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Service:
    """A tracker named ``fake``."""
    monkeypatch.setattr(registry, "_KINDS", dict(registry._KINDS))
    made = Service()
    register_tracker("fake", made.open)
    return made


def _until(is_true: Callable[[], bool]) -> None:
    """Waits until the thread of a feed is as far."""
    deadline = time.monotonic() + 30
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def _is_at(service: Service, feed: TrackerFeed, failures: int, last: list[int]) -> bool:
    """Whether the feed has failed so often, and the service has this last point."""
    return feed.failures == failures and service.points.get("run-1", [])[-1:][: len(last)] == last


def _point(units: int, **metrics: float | None) -> CurvePoint:
    return CurvePoint(units, units, metrics or {"loss": float(units)})


def _feed(folder: Path, points: list[CurvePoint] | None = None) -> TrackerFeed:
    run = TrackedRun(None, "project", "run", folder, {"seed": "3"})
    return TrackerFeed("fake", run, folder / "trackers", points)


def test_points_arrive_in_order_with_the_groups_of_their_metrics(service: Service, tmp_path: Path) -> None:
    feed = _feed(tmp_path)
    feed.append(_point(0, score=0.5))
    feed.append(_point(1, loss=2.0, score=None, grad_norm=float("nan"), mine=1.0))
    feed.close("finished")
    assert service.opened == [TrackedRun(None, "project", "run", tmp_path, {"seed": "3"})]
    assert service.points == {"run-1": [0, 1]}
    assert service.values == [{"score/score": 0.5}, {"update/loss": 2.0, "other/mine": 1.0}]
    assert service.ends == ["finished"]
    assert not list((tmp_path / "trackers").glob("*.partial"))


def test_without_points_nothing_is_opened(service: Service, tmp_path: Path) -> None:
    _feed(tmp_path).close("failed")
    assert (service.opened, service.ends) == ([], [])
    assert not (tmp_path / "trackers").exists()


def test_a_resumed_run_continues_where_the_tracker_is(service: Service, tmp_path: Path) -> None:
    first = _feed(tmp_path)
    for units in (1, 2, 3, 4):
        first.append(_point(units))
    first.close("interrupted")
    # back to the checkpoint after 2 units: 3 and 4 are repeated
    resumed = _feed(tmp_path, [_point(1), _point(2)])
    for units in (3, 4, 5):
        resumed.append(_point(units))
    resumed.close("finished")
    assert [run.id for run in service.opened] == [None, "run-1"]
    assert service.points == {"run-1": [1, 2, 3, 4, 5]}
    assert service.ends == ["interrupted", "finished"]


def test_a_new_run_in_the_same_folder_is_a_new_one_of_the_tracker(service: Service, tmp_path: Path) -> None:
    for _ in range(2):
        feed = _feed(tmp_path)
        feed.append(_point(1))
        feed.close("finished")
    assert service.points == {"run-1": [1], "run-2": [1]}


def test_a_tracker_that_was_added_gets_the_curve_so_far(service: Service, tmp_path: Path) -> None:
    feed = _feed(tmp_path, [_point(1), _point(2)])
    feed.append(_point(3))
    feed.close("finished")
    assert service.points == {"run-1": [1, 2, 3]}


@pytest.mark.filterwarnings("ignore:tracker 'fake' failed")
def test_a_tracker_that_is_down_gets_everything_when_it_is_back(service: Service, tmp_path: Path) -> None:
    feed, failures = _feed(tmp_path), 0
    for units in range(1, 7):
        service.fails = units in {1, 2, 4, 5}
        failures += service.fails
        feed.append(_point(units))
        last = [] if service.fails else [units]
        _until(partial(_is_at, service, feed, failures, last))
    feed.close("finished")
    assert service.points == {"run-1": [1, 2, 3, 4, 5, 6]}
    assert feed.failures == 4
    assert json.loads((tmp_path / "trackers" / "fake.json").read_text())["record"] == {"id": "run-1", "units": 6}


def test_a_tracker_that_stays_down_is_reported_once_and_at_the_end(service: Service, tmp_path: Path) -> None:
    service.fails = True
    feed = _feed(tmp_path)
    feed.append(_point(1))
    _until(lambda: feed.failures == 1)
    with pytest.warns(UserWarning, match="tracker 'fake' failed: ConnectionError: the service is down. Training"):
        feed.append(_point(2))
    feed.append(_point(3))
    with pytest.warns(UserWarning, match=r"lacks 3 points of the run \(4 failed tries\); curve.jsonl has them"):
        feed.close("finished")
    service.fails = False
    _feed(tmp_path, [_point(1), _point(2), _point(3)]).close("finished")
    assert service.points == {"run-1": [1, 2, 3]}


def test_a_tracker_that_does_not_answer_stops_neither_the_run_nor_its_end(service: Service, tmp_path: Path) -> None:
    service.waits = threading.Event()
    feed = _feed(tmp_path)
    for units in range(1, 4):
        feed.append(_point(units))
    with pytest.warns(UserWarning, match="lacks 3 points"):
        feed.close("finished", seconds=0.1)
    service.waits.set()


@pytest.mark.filterwarnings("ignore:tracker 'fake'")
def test_training_is_the_same_with_a_tracker_that_works_fails_or_is_absent(
    service: Service, tiny_model: Model, make_trajectory: Make, tmp_path: Path
) -> None:
    rows = supervised_rows([make_trajectory((1, 5, 2, 7), ((0, 2, 4),), name=str(index)) for index in range(4)])
    settings, hashes = SftSettings(epochs=2, batch_rows=2, checkpoint_every=3), []
    for name in ("absent", "works", "fails"):
        service.fails = name == "fails"
        tracking = None if name == "absent" else Tracking(("fake",), "project", name)
        model = tiny_model()
        run_sft(model, rows, settings, RunOptions(0, tmp_path / name, tracking=tracking))
        hashes.append(weights_hash(model))
    assert len(set(hashes)) == 1
    (run,) = service.opened
    assert (run.project, run.name, run.folder) == ("project", "works", tmp_path / "works")
    assert run.parameters["setting batch_rows"] == "2"
    assert service.points == {"run-1": [point.units for point in read_curve(tmp_path / "works" / CURVE_FILE)]}
    assert service.ends == ["finished"]


def test_a_stopped_run_continues_the_trackers_run(
    service: Service, tiny_model: Model, make_trajectory: Make, tmp_path: Path
) -> None:
    rows = supervised_rows([make_trajectory((1, 5, 2, 7), ((0, 2, 4),), name=str(index)) for index in range(8)])
    settings, tracking = SftSettings(batch_rows=2, checkpoint_every=2), Tracking(("fake",), "project", "run")

    def stop(point: CurvePoint) -> None:
        if point.units == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_sft(tiny_model(), rows, settings, RunOptions(0, tmp_path, progress=stop, tracking=tracking))
    run_sft(tiny_model(), rows, settings, RunOptions(0, tmp_path, tracking=tracking))
    assert service.points == {"run-1": [1, 2, 3, 4]}
    assert [run.id for run in service.opened] == [None, "run-1"]
    assert service.ends == ["interrupted", "finished"]


def test_an_unknown_or_missing_tracker_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TrainingError, match="unknown tracker 'wand'; known: wandb, mlflow, trackio"):
        Tracking(("wand",), "project", "run")
    monkeypatch.setattr(registry, "find_spec", lambda _: None)
    for name in ("wandb", "mlflow", "trackio"):
        with pytest.raises(TrainingError, match=rf"tracker '{name}' .*pip install 'upturn\[{name}\]'"):
            Tracking((name,), "project", "run")
