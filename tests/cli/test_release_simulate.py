"""``upturn release simulate`` prints one object and fails if a bar is missed."""

import json

import pytest
import typer
from typer.testing import CliRunner

from upturn.cli.release import simulate
from upturn.deployment import SCENARIOS
from upturn.deployment.best_agent_simulation import Experiment
from upturn.errors import ConfigError


def test_simulation_prints_one_object_with_bars(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(SCENARIOS) == 13
    few = [scenario for scenario in SCENARIOS if scenario.name in {"0.88_to_0.88", "0.70_to_0.80", "0.90_to_0.00"}]
    monkeypatch.setattr("upturn.cli.release.SCENARIOS", few)
    app = typer.Typer()
    app.command()(simulate)
    result = CliRunner().invoke(app, ["--runs", "100", "--seed", "3", "--json"])
    printed = json.loads(result.stdout)
    bars = {figure["name"]: figure["holds"] for figure in printed["results"] if figure["bar"] is not None}
    assert set(bars) == {"0.88_to_0.88_promoted", "0.70_to_0.80_promoted"}
    assert result.exit_code == (0 if all(bars.values()) else 1)
    assert (printed["command"], printed["threshold"], printed["seed"]) == ("release simulate", 40.0, 3)


def test_experiments_between_agents_are_simulated_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    """.90 against .50: each run errs with at most 5 %, and the bar breaks with P < 1e-3."""
    monkeypatch.setattr("upturn.cli.release.EXPERIMENTS", (Experiment((0.9, 0.5), 100.0),))
    app = typer.Typer()
    app.command()(simulate)
    result = CliRunner().invoke(app, ["--runs", "100", "--best-agent", "--json"])
    assert result.exit_code == 0, result.output
    printed = json.loads(result.stdout)
    figures = {figure["name"]: figure["value"] for figure in printed["results"]}
    assert figures["best_of_0.90_0.50_decided"] == 1.0
    assert 40 < figures["best_of_0.90_0.50_median_tasks"] < 70, "median 54"
    assert (printed["alpha"], printed["margin"]) == (0.05, 0.0)
    both = CliRunner().invoke(app, ["--best-agent", "--grid"])
    assert isinstance(both.exception, ConfigError)
