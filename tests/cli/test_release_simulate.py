"""``upturn release simulate`` prints one object and fails if a bar is missed."""

import json

import pytest
import typer
from typer.testing import CliRunner

from upturn.cli.release import simulate
from upturn.deployment import SCENARIOS


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
