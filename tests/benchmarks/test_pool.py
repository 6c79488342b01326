"""``python -m benchmarks pool``: a quick run of all measurements."""

import json
from pathlib import Path

from typer.testing import CliRunner

from benchmarks.__main__ import app
from benchmarks.pool.workload import GROUP, PROMPT_TOKENS, TURNS, groups, small_points


def test_a_group_shares_its_prompt() -> None:
    points = list(groups(2))
    assert len(points) == 2 * GROUP
    prompts = {point.trajectory.rows[0].token_ids[:PROMPT_TOKENS] for point in points}
    assert len(prompts) == 2
    assert {len(point.trajectory.turns) for point in points} == {TURNS}
    assert len({point.trajectory.id for point in points}) == 2 * GROUP


def test_small_points_are_as_many_as_asked_for() -> None:
    points = list(small_points(20))
    assert len({point.trajectory.id for point in points}) == 20
    assert len({point.task.id for point in points}) == 3


def test_a_quick_run_measures_everything_and_repeats_nothing(tmp_path: Path) -> None:
    command = ["pool", "--quick", "--backend", "sqlite", "--folder", str(tmp_path), "--json"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    printed = json.loads(done.stdout)
    values = {result["name"]: result["value"] for result in printed["results"]}
    assert set(values) == {
        "sqlite trajectories",
        "sqlite processor time",
        "sqlite processor time with the server",
        "sqlite bytes a token",
        "sqlite of rows whole, as JSON",
        "sqlite of rows whole, packed",
        "sqlite get_batch",
        "sqlite get_batch, processor time",
        "sqlite get_batch with priorities",
        "sqlite get_batch with priorities, processor time",
        "sqlite statistics",
        "sqlite statistics, processor time",
        "sqlite growth of a row's time",
        "sqlite growth of a row's processor time",
        "sqlite time of a row",
        "sqlite processor time of a row",
        "sqlite kill -9: acknowledged writes",
        "sqlite kill -9: acknowledged writes lost",
        "sqlite kill -9: writes stored in part",
        "sqlite kill -9: problems of integrity",
    }
    assert values["sqlite of rows whole, as JSON"] < 0.4
    assert values["sqlite kill -9: acknowledged writes"] >= 1
    assert [values[name] for name in values if name.endswith(("lost", "in part", "integrity"))] == [0.0] * 3
    assert all(result["bar"] is None for result in printed["results"])
    again = CliRunner().invoke(app, command)
    assert json.loads(again.stdout)["results"] == printed["results"], "all of it was stored"
