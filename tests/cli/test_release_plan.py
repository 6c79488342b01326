"""``upturn release plan`` prints a design, with the defaults of a configuration."""

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from upturn.cli.release import plan
from upturn.errors import ReleaseError

CONFIGURATION = """
agents = [{ name = "nano", kind = "local_model", model = "nano" }]
environment = { name = "office" }
tasks = { families = ["mail_newest", "cell_say"], heldout_count = 40 }
canary = { stages = [0.5, 1.0], max_candidate_episodes = 200, minimum_effect = 0.4 }
"""


def run_plan(*arguments: str) -> Result:
    app = typer.Typer()
    app.command()(plan)
    return CliRunner().invoke(app, [*arguments])


def printed(*arguments: str) -> dict[str, Any]:
    result = run_plan(*arguments, "--runs", "50", "--json")
    assert result.exit_code == 0, result.output
    parsed: dict[str, Any] = json.loads(result.stdout)
    return parsed


def test_the_plan_uses_the_configuration(tmp_path: Path) -> None:
    path = tmp_path / "upturn.toml"
    path.write_text(CONFIGURATION)
    shown = printed("--config", str(path), "--baseline", "0.3", "--tasks-per-day", "100")
    assert (shown["command"], shown["families"], shown["configured_tasks"], shown["effect"]) == (
        "release plan", 2, 40, 0.4,
    )  # fmt: skip
    figures = {figure["name"]: figure for figure in shown["results"]}
    assert figures["validation_configured_tasks"]["value"] == 40
    assert figures["validation_tasks"]["unit"] == "tasks"
    assert figures["canary_unchanged_promoted"]["bar"] == "<= 0.025"
    # At half of the traffic, 100 tasks a day, 200 candidate tasks take about four days.
    assert 3 < figures["canary_unchanged_days_median"]["value"] < 5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--baseline", "0.95", "--effect", "0.1"), "--effect 0.1 must be above 0 and at most 1 - --baseline"),
        (("--effect", "0"), "--effect 0 must be above 0"),
        (("--correlation", "0.5"), "no effect with --session-tasks 1"),
    ],
)
def test_a_design_that_cannot_be_is_refused(arguments: tuple[str, ...], message: str) -> None:
    result = run_plan(*arguments)
    assert isinstance(result.exception, ReleaseError)
    assert message in str(result.exception)
