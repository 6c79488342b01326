"""Learning curves on disk."""

import math
from pathlib import Path

import pytest

from upturn.errors import TrainingError
from upturn.training.runs.curve import Curve, CurvePoint, read_curve

POINTS = tuple(CurvePoint(units, 2 * units, {"loss": 1 / (units + 1)}) for units in range(4))


def _written(path: Path) -> Path:
    with Curve(path, keep_units=None) as curve:
        for point in POINTS:
            curve.append(point)
    return path


def test_points_round_trip_exactly(tmp_path: Path) -> None:
    assert read_curve(_written(tmp_path / "curve.jsonl")) == POINTS


def test_a_point_can_be_read_during_the_run(tmp_path: Path) -> None:
    path = tmp_path / "curve.jsonl"
    with Curve(path, keep_units=None) as curve:
        curve.append(POINTS[0])
        assert read_curve(path) == POINTS[:1]


def test_resuming_cuts_to_the_checkpoint_and_appends(tmp_path: Path) -> None:
    path = _written(tmp_path / "curve.jsonl")
    with Curve(path, keep_units=1) as curve:
        assert read_curve(path) == POINTS[:2]
        curve.append(POINTS[2])
    assert read_curve(path) == POINTS[:3]


def test_a_new_run_starts_with_an_empty_curve(tmp_path: Path) -> None:
    path = _written(tmp_path / "curve.jsonl")
    Curve(path, keep_units=None).close()
    assert read_curve(path) == ()


def test_numbers_that_are_not_finite_become_missing(tmp_path: Path) -> None:
    path = tmp_path / "curve.jsonl"
    with Curve(path, keep_units=None) as curve:
        curve.append(CurvePoint(0, 0, {"mean_return": math.nan, "loss": 1.0}))
    assert read_curve(path)[0].metrics == {"mean_return": None, "loss": 1.0}


def test_an_incomplete_last_line_is_ignored(tmp_path: Path) -> None:
    path = _written(tmp_path / "curve.jsonl")
    with path.open("a") as file:
        file.write('{"units": 4, "st')
    assert read_curve(path) == POINTS


@pytest.mark.parametrize(
    "line",
    [
        "nonsense",
        "[]",
        '{"units": 1}',
        '{"units": 1, "steps": 2, "loss": "low"}',
        '{"units": 1, "steps": 2, "loss": NaN}',
        '{"units": 1, "steps": 2, "loss": -Infinity}',
        '{"units": 1, "steps": 2, "loss": 1e999}',
        '{"units": 1, "steps": 2, "loss": 1' + "0" * 400 + "}",
        '{"units": 1e999, "steps": 2}',
    ],
)
def test_a_damaged_line_is_named(tmp_path: Path, line: str) -> None:
    path = _written(tmp_path / "curve.jsonl")
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:2], line, *lines[3:]]) + "\n")
    with pytest.raises(TrainingError, match=r"line 3 of the curve .*curve\.jsonl' is damaged"):
        read_curve(path)


def test_undecodable_bytes_are_reported_with_their_line(tmp_path: Path) -> None:
    path = _written(tmp_path / "curve.jsonl")
    lines = path.read_bytes().splitlines()
    path.write_bytes(b"\n".join([lines[0], b'{"units": 1, "st\xff', *lines[2:]]) + b"\n")
    with pytest.raises(TrainingError, match=r"line 2 of the curve .* is damaged .*\\udcff'; delete that line$"):
        read_curve(path)
    path.write_bytes(b"\n".join(lines) + b"\n\xff\xfe")  # the last line was being written
    assert read_curve(path) == POINTS


def test_a_missing_curve_is_an_error_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"cannot read the curve .*none\.jsonl.*; restore the file$"):
        read_curve(tmp_path / "none.jsonl")
