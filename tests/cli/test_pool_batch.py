"""``upturn pool batch`` and ``snapshot`` on the small τ-bench file."""

import json
from pathlib import Path

import pytest

from tests.cli.test_pool_command import TAU, run, run_json, values
from upturn.pool import Pool


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    path = tmp_path / "pool.db"
    assert run("ingest", TAU, "--format", "tau-bench", "--pool", path).exit_code == 0
    return path


def test_a_batch_is_drawn_frozen_and_drawn_again(filled: Path, tmp_path: Path) -> None:
    first, again = tmp_path / "first.jsonl", tmp_path / "again.jsonl"
    printed = run_json("pool", "batch", "--pool", filled, "--size", 3, "--seed", 4, "--freeze", "--out", first)
    assert values(printed)["points"] == 3
    assert values(printed)["available"] == 6
    points = [json.loads(line) for line in first.read_text().splitlines()]
    with Pool.open(filled, read_only=True) as pool:
        (stored,) = pool.snapshots()
    assert stored.id == printed["snapshot"]
    assert sorted(point["trajectory_id"] for point in points) == list(stored.trajectory_ids)
    redrawn = run_json("pool", "snapshot", stored.id, "--pool", filled, "--out", again)
    assert redrawn["is_same"] is True
    assert again.read_bytes() == first.read_bytes()
    (listed,) = run_json("pool", "snapshot", "--pool", filled)["snapshots"]
    assert listed["id"] == stored.id
    assert listed["points"] == 3
    assert listed["criteria"]["seed"] == 4


def test_a_batch_says_what_it_consists_of(filled: Path) -> None:
    shown = run("pool", "batch", "--pool", filled, "--verdict", "success", "--prefer-success", 2, "--per-task", 1)
    assert shown.exit_code == 0, shown.output
    assert "available" in shown.output
    assert "success" in shown.output
    assert "failure" not in shown.output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--since", "yesterday"), "is no day or time"),
        (("--balance", "colour"), "known: family, level, agent, agent_version"),
        (("--origin", "found"), "known: sampled, rendered"),
        (("--prefer-novelty", "99"), "priority novelty must be from -50 to 50"),
        (("--heldout", "1"), "heldout_share must be at least 0 and below 1"),
        (("--min-score", "nan"), "min_score must be a finite number"),
    ],
)
def test_impossible_options_are_refused(filled: Path, options: tuple[str, ...], message: str) -> None:
    done = run("pool", "batch", "--pool", filled, *options)
    assert done.exit_code == 2
    assert message in " ".join(done.output.replace("│", " ").split())


def test_no_points_exit_with_1(filled: Path) -> None:
    assert run("pool", "batch", "--pool", filled, "--family", "unknown", "--freeze").exit_code == 1
    assert run("pool", "batch", "--pool", filled, "--before", "1999-01-01").exit_code == 1
    assert run_json("pool", "snapshot", "--pool", filled)["snapshots"] == []


def test_a_snapshot_of_another_tenant_is_refused(filled: Path) -> None:
    name = run_json("pool", "batch", "--pool", filled, "--freeze")["snapshot"]
    done = run("pool", "snapshot", name, "--pool", filled, "--tenant", "other")
    assert done.exit_code == 1
    assert "is not of tenant 'other' alone" in str(done.exception)
