"""``upturn release simulate`` prints one object and fails if a bar is missed."""

import json

import typer
from typer.testing import CliRunner

from upturn.cli.release import simulate


def test_simulation_prints_one_object_with_bars() -> None:
    app = typer.Typer()
    app.command()(simulate)
    result = CliRunner().invoke(app, ["--runs", "100", "--seed", "3", "--json"])
    printed = json.loads(result.stdout)
    bars = {figure["name"]: figure["holds"] for figure in printed["results"] if figure["bar"] is not None}
    assert set(bars) == {
        "0.50_to_0.50_promoted",
        "0.70_to_0.70_promoted",
        "0.88_to_0.88_promoted",
        "0.70_to_0.70_sessions_5_0.6_promoted",
        "0.70_to_0.70_failures_missing_0.3_promoted",
        "0.90_to_0.80_failures_missing_promoted",
        "0.70_to_0.90_violations_0.02_promoted",
        "0.70_to_0.80_promoted",
        "0.70_to_0.80_sessions_5_0.3_promoted",
    }
    assert result.exit_code == (0 if all(bars.values()) else 1)
    assert (printed["command"], printed["threshold"], printed["seed"]) == ("release simulate", 40.0, 3)
