"""The event file has the points of the curve, read back by an independent parser."""

import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from transformers import PreTrainedModel

from upturn.records import Trajectory
from upturn.training import supervised_rows
from upturn.training.algorithms.sft import SftSettings, run_sft
from upturn.training.runs import RunOptions, read_curve
from upturn.training.runs.curve import CurvePoint
from upturn.training.runs.metric import group_of
from upturn.training.runs.run_folder import CURVE_FILE, EVENTS_FOLDER
from upturn.training.runs.tensorboard import EventFile


class Read(NamedTuple):
    """One event as read back."""

    wall_time: float
    step: int
    values: dict[str, float]
    is_start: bool


def _crc32c(content: bytes) -> int:
    """Castagnoli's CRC bit by bit (polynomial 0x1EDC6F41, reflected)."""
    register = 0xFFFFFFFF
    for byte in content:
        register ^= byte
        for _ in range(8):
            register = (register >> 1) ^ (0x82F63B78 if register & 1 else 0)
    return register ^ 0xFFFFFFFF


def _masked(content: bytes) -> int:
    """The masked checksum of TensorFlow's lib/hash/crc32c.h."""
    crc = _crc32c(content)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def _records(content: bytes) -> Iterator[bytes]:
    """TFRecord: length, its checksum, the bytes, their checksum."""
    while content:
        length, header = struct.unpack("<QI", content[:12])
        assert header == _masked(content[:8])
        body, content = content[12 : 12 + length], content[12 + length :]
        assert struct.unpack("<I", content[:4])[0] == _masked(body)
        content = content[4:]
        yield body


def _varint(content: bytes) -> tuple[int, bytes]:
    value = shift = 0
    for place, byte in enumerate(content):
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, content[place + 1 :]
    raise AssertionError("a varint without end")


def _fields(content: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Protocol buffer fields as (number, varint or bytes)."""
    while content:
        key, content = _varint(content)
        size = {1: 8, 5: 4}.get(key & 7)
        if key & 7 == 0:
            number, content = _varint(content)
            yield key >> 3, number
            continue
        if size is None:
            assert key & 7 == 2
            size, content = _varint(content)
        yield key >> 3, content[:size]
        content = content[size:]


def _event(body: bytes) -> Read:
    """1 wall_time, 2 step, 5 summary (1 value: 1 tag, 2 simple_value), 7 session_log (1 status, 1 = START)."""
    time, step, values, is_start = 0.0, 0, dict[str, float](), False
    for number, content in _fields(body):
        if number == 2:
            assert isinstance(content, int)
            step = content
        elif isinstance(content, bytes) and number == 1:
            (time,) = struct.unpack("<d", content)
        elif isinstance(content, bytes) and number == 7:
            is_start = dict(_fields(content)).get(1) == 1
        elif isinstance(content, bytes) and number == 5:
            for _, value in _fields(content):
                assert isinstance(value, bytes)
                inner = dict(_fields(value))
                tag, simple = inner[1], inner[2]
                assert isinstance(tag, bytes) and isinstance(simple, bytes)
                (values[tag.decode()],) = struct.unpack("<f", simple)
    return Read(time, step, values, is_start)


def read_events(folder: Path) -> list[Read]:
    (path,) = folder.iterdir()
    assert path.name.startswith("events.out.tfevents.")
    return [_event(body) for body in _records(path.read_bytes())]


def test_the_parser_computes_the_published_checksum() -> None:
    """RFC 3720, B.4: 32 bytes of zeroes, and of ones."""
    assert _crc32c(bytes(32)) == 0x8A9136AA
    assert _crc32c(b"\xff" * 32) == 0x62A8AB43


POINTS = tuple(
    CurvePoint(
        units, 2 * units, {"loss": 1 / (units + 3), "score": 0.1 * units, "collect_seconds": 2.0, "mine": 5.0}
    )
    for units in range(4)
)


def _clock(*moments: float) -> Callable[[], float]:
    left = iter(moments)
    return lambda: next(left)


def _expected(points: tuple[CurvePoint, ...]) -> list[tuple[int, dict[str, float]]]:
    tags = {
        "loss": "update/loss",
        "score": "score/score",
        "collect_seconds": "time/collect_seconds",
        "mine": "other/mine",
    }
    return [
        (p.units, {tags[name]: float(np.float32(value)) for name, value in p.metrics.items() if value is not None})
        for p in points
    ]


def _steps(events: list[Read]) -> list[tuple[int, dict[str, float]]]:
    return [(event.step, event.values) for event in events if event.values]


def test_points_are_in_the_file_under_their_group(tmp_path: Path) -> None:
    with EventFile(tmp_path, (), clock=_clock(100.0, 101.0, 105.5)) as events:
        events.append(POINTS[0])
        events.append(POINTS[1])
    recorded = read_events(tmp_path)
    assert _steps(recorded) == _expected(POINTS[:2])
    assert [event.wall_time for event in recorded if event.values] == [101.0, 105.5]
    assert [event.is_start for event in recorded] == [False, True, False, False]


def test_a_resumed_file_has_each_step_once_and_a_restart_marker(tmp_path: Path) -> None:
    with EventFile(tmp_path, ()) as events:
        for point in POINTS:
            events.append(point)
    with EventFile(tmp_path, POINTS[:2], clock=_clock(1000.0, 1001.0)) as events:
        events.append(POINTS[2])
    recorded = read_events(tmp_path)
    assert _steps(recorded) == _expected(POINTS[:3])
    # Two points of two seconds each end where the run resumes.
    assert [event.wall_time for event in recorded if event.values] == [998.0, 1000.0, 1001.0]
    assert [(event.is_start, event.step) for event in recorded][1] == (True, 0)


def test_missing_numbers_are_omitted(tmp_path: Path) -> None:
    with EventFile(tmp_path, ()) as events:
        events.append(CurvePoint(1, 1, {"loss": None, "score": 0.5}))
    assert _steps(read_events(tmp_path)) == [(1, {"score/score": 0.5})]


class _KilledError(Exception):
    """Stops a run in a test."""


def test_an_interrupted_run_leaves_a_file_equal_to_its_curve(
    tiny_model: Callable[..., PreTrainedModel], make_trajectory: Callable[..., Trajectory], tmp_path: Path
) -> None:
    """Killed after unit 5 with checkpoints at 3 and 6: units 4 and 5 are computed twice and recorded once."""
    rows = supervised_rows([make_trajectory(origin="rendered", name=str(index)) for index in range(4)])
    settings = SftSettings(epochs=4, batch_rows=2, checkpoint_every=3)

    def kill(point: CurvePoint) -> None:
        if point.units == 5:
            raise _KilledError

    with pytest.raises(_KilledError):
        run_sft(tiny_model(), rows, settings, RunOptions(0, tmp_path, progress=kill))
    run_sft(tiny_model(), rows, settings, RunOptions(0, tmp_path))
    curve = read_curve(tmp_path / CURVE_FILE)
    assert [point.units for point in curve] == list(range(1, 9))
    assert _steps(read_events(tmp_path / EVENTS_FOLDER)) == [
        (
            point.units,
            {
                f"{group_of(name)}/{name}": float(np.float32(value))
                for name, value in point.metrics.items()
                if value is not None
            },
        )
        for point in curve
    ]


@pytest.mark.parametrize("initial", [0, 3])
def test_synced_points_can_be_read_during_the_run(tmp_path: Path, initial: int) -> None:
    with EventFile(tmp_path, POINTS[:initial]) as events:
        events.append(POINTS[initial])
        events.sync()
        assert _steps(read_events(tmp_path)) == _expected(POINTS[: initial + 1])
