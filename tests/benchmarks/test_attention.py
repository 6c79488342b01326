"""``python -m benchmarks attention``: every backend is timed on every tree, after their results are compared."""

import json

import pytest
from typer.testing import CliRunner

from benchmarks import attention
from benchmarks.__main__ import app


def test_backends_are_timed_on_both_trees_and_the_mask_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "find_device", lambda: None)
    result = CliRunner().invoke(app, ["attention", "--quick", "--threads", "1", "--reps", "2", "--json"])
    assert result.exit_code == 0, result.output
    printed = json.loads(result.stdout)
    rows = {row["name"]: row for row in printed["results"]}
    assert list(rows) == [
        "group_256_streamed",
        "group_256_by_node",
        "chain_256_by_node",
        "chain_256_streamed",
        "mask_memory",
    ]
    assert all(row["value"] > 0 for row in rows.values())
    assert rows["mask_memory"]["value"] < 1
    assert printed["chosen"] == {"group_256": "streamed", "chain_256": "by_node"}


def test_backends_that_differ_are_reported_and_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "find_device", lambda: None)
    monkeypatch.setattr(attention, "_TOLERANCE", {"cpu": 0.0})
    result = CliRunner().invoke(app, ["attention", "--quick", "--threads", "1"])
    assert result.exit_code != 0
    assert "differs from 'by_node'" in result.output
