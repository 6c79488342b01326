"""The clients of W&B, MLflow and trackio, offline: what they store, also of a resumed run."""

import json
import os
import struct
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import upturn
from upturn.training.runs.curve import CurvePoint
from upturn.training.runs.trackers import TrackedRun, TrackerFeed

PARAMETERS = {"algorithm": "grpo", "setting optimiser": "x" * 600} | {f"setting {n}": str(n) for n in range(120)}


def _points(units: Sequence[int]) -> list[CurvePoint]:
    return [CurvePoint(n, n, {"loss": n / 4, "mine:b": 1.0, "score": None if n % 2 else 0.5}) for n in units]


def _run_twice(name: str, folder: Path) -> str:
    """A run of units 0 to 3 that is interrupted, goes back to 2, and ends after 5; the service's id of it."""
    run = TrackedRun(None, "tests", "demo/grpo", folder, PARAMETERS)
    first = TrackerFeed(name, run, folder / "trackers", None)
    for point in _points(range(4)):
        first.append(point)
    first.close("interrupted")
    if name == "wandb":
        time.sleep(1.1)  # it names a folder by the second and the run
    resumed = TrackerFeed(name, run, folder / "trackers", _points(range(3)))
    for point in _points(range(3, 6)):
        resumed.append(point)
    resumed.close("finished")
    assert first.failures == resumed.failures == 0
    return str(json.loads((folder / "trackers" / f"{name}.json").read_text())["record"]["id"])


@pytest.mark.filterwarnings("default")
def test_mlflow_stores_one_run_with_all_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'mlflow.db'}")
    run_id = _run_twice("mlflow", tmp_path)
    from mlflow import MlflowClient

    client = MlflowClient()
    experiment = client.get_experiment_by_name("tests")
    (run,) = client.search_runs([experiment.experiment_id])
    assert (run.info.run_id, run.info.run_name, run.info.status) == (run_id, "demo/grpo", "FINISHED")
    assert [(m.step, m.value) for m in client.get_metric_history(run_id, "update/loss")] == [
        (n, n / 4) for n in range(6)
    ]
    assert [m.step for m in client.get_metric_history(run_id, "score/score")] == [0, 2, 4]
    assert len(client.get_metric_history(run_id, "other/mine_b")) == 6
    assert run.data.params["algorithm"] == "grpo"
    assert len(run.data.params) == len(PARAMETERS)


def _in_child(program: str, folder: Path, **environment: str) -> Any:
    """What the program prints as JSON in its last line; its clients have threads and handlers of their own."""
    done = subprocess.run(
        [sys.executable, "-c", program, str(folder)],
        capture_output=True,
        text=True,
        check=False,
        env=dict(os.environ, PYTHONPATH=str(Path(upturn.__file__).parents[1]), **environment),
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


_RUN = f"""
import json, sys
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_clients import _run_twice
folder = Path(sys.argv[1])
"""


def test_trackio_stores_one_run_with_all_points(tmp_path: Path) -> None:
    pytest.importorskip("trackio")
    program = f"""{_RUN}
run_id = _run_twice("trackio", folder)
from trackio import Api
from trackio.sqlite_storage import SQLiteStorage
(run,) = Api().runs("tests")
print(json.dumps([run_id, run.name, run.config["algorithm"], SQLiteStorage.get_logs("tests", run.name)]))
"""
    run_id, name, algorithm, rows = _in_child(program, tmp_path, TRACKIO_DIR=str(tmp_path / "trackio"))
    assert name == run_id
    assert name.startswith("demo/grpo-")
    assert algorithm == "grpo"
    _check_rows(rows, "step")


def _log_records(content: bytes) -> list[bytes]:
    """The records of a LevelDB log: blocks of 32 KiB of chunks (checksum, length, type), after W&B's 7 bytes."""
    records, place = [b""], 7
    while place + 7 <= len(content):
        if 32_768 - place % 32_768 < 7:
            place += 32_768 - place % 32_768
        _, length, kind = struct.unpack("<IHB", content[place : place + 7])
        records[-1] += content[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in {1, 4}:  # whole, or the last chunk
            records.append(b"")
    return records[:-1]


def test_wandb_stores_one_run_offline_with_all_points(tmp_path: Path) -> None:
    pytest.importorskip("wandb")
    program = f"""{_RUN}
run_id = _run_twice("wandb", folder)
import wandb
wandb.teardown()  # a run may be finished before its file is
from wandb.proto.wandb_internal_pb2 import Record
from test_clients import _log_records
rows, ids = [], []
for path in sorted(folder.glob("wandb/offline-run-*/*.wandb")):
    for content in _log_records(path.read_bytes()):
        record = Record.FromString(content)
        if record.WhichOneof("record_type") == "run":
            ids.append([record.run.run_id, record.run.display_name, record.run.project])
        if record.WhichOneof("record_type") == "history":
            rows.append({{i.key or "/".join(i.nested_key): json.loads(i.value_json) for i in record.history.item}})
print(json.dumps([run_id, ids, rows]))
"""
    run_id, ids, rows = _in_child(program, tmp_path, WANDB_MODE="offline", WANDB_ERROR_REPORTING="false")
    _check_rows(rows, "_step")
    assert ids == [[run_id, "demo/grpo", "tests"]] * 2


def test_wandb_without_a_key_does_not_ask_for_one(tmp_path: Path) -> None:
    pytest.importorskip("wandb")
    program = f"""{_RUN}
import warnings
from upturn.training.runs.trackers import TrackedRun, TrackerFeed
from test_clients import _points
feed = TrackerFeed("wandb", TrackedRun(None, "tests", "demo", folder, {{}}), folder / "trackers", None)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    feed.append(_points([1])[0])
    feed.close("finished")
print(json.dumps([str(warning.message) for warning in caught]))
"""
    home = {"HOME": str(tmp_path), "WANDB_API_KEY": "", "WANDB_MODE": "online", "WANDB_ERROR_REPORTING": "false"}
    messages = _in_child(program, tmp_path, **home)
    assert any("W&B has no API key; set WANDB_API_KEY" in message for message in messages), messages


def _check_rows(rows: Sequence[Mapping[str, object]], step: str) -> None:
    assert [(row[step], row["update/loss"], row.get("score/score")) for row in rows] == [
        (n, n / 4, None if n % 2 else 0.5) for n in range(6)
    ]
