"""``upturn agents`` beside a process that has the pool open."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.deployment.test_agents import NEW, OLD, decided, done
from upturn.cli.app import app
from upturn.pool import Pool
from upturn.records import AgentLimits, AgentVersion, Feedback, Release

AUDIT = ("--who", "ana", "--why", "tested")


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[Pool]:
    with Pool.open(tmp_path / "pool.db") as opened:
        opened.append(*(AgentVersion("clerk", version, "callable") for version in "12"))
        for number in range(40):
            opened.append(*done(number, OLD, number < 8), *done(number, NEW, number < 36))
            opened.append(decided(number, NEW), *done(number, NEW, number < 30, split="train"))
        yield opened


def run(pool: Pool, *arguments: str, code: int = 0) -> dict[str, Any]:
    result = CliRunner().invoke(app, [*arguments, "--pool", str(pool.location), "--json"])
    assert result.exit_code == code, result.output
    printed: dict[str, Any] = json.loads(result.stdout)
    return printed


def test_profiles_and_limits(pool: Pool) -> None:
    (row,) = run(pool, "agents", "profile")["results"]
    assert (row["name"], row["value"], row["n"]) == (f"{NEW} mail", pytest.approx(31 / 42), 40)
    changed = run(pool, "agents", "update", "clerk", "--load-cap", "4", "--suspend", *AUDIT)
    assert (changed["environments"], changed["load_cap"], changed["suspended"]) == ("as configured", 4, True)
    run(pool, "agents", "update", "clerk", "--serve", "--environment", "office", *AUDIT)
    assert pool.states(AgentLimits) == [
        AgentLimits("clerk", "updated by ana: tested", capabilities=("office",), max_concurrent=4)
    ]


def test_profiles_count_the_configured_metrics(pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rated = decided(70, OLD)
    pool.append(rated, Feedback("f", "decision", rated.id, "stars", 4.0))
    assert f"{OLD} mail" not in [row["name"] for row in run(pool, "agents", "profile")["results"]]
    (tmp_path / "upturn.toml").write_text(
        """
        [loop]
        train = []
        [[agents]]
        name = "far"
        kind = "endpoint"
        url = "http://localhost:1/v1"
        model = "m"
        api_key_env = "NOT_SET_IN_THIS_SHELL"
        [[gateway.metrics]]
        name = "stars"
        level = "call"
        low = 1.0
        high = 5.0
        """,
        encoding="utf-8",
    )
    profile = run(pool, "agents", "profile")
    means = {row["name"]: row["value"] for row in profile["results"]}
    assert means[f"{OLD} mail"] == pytest.approx((1 + 0.75) / 3)  # Beta(1, 1) and a reward of (4 - 1) / (5 - 1)
    assert profile["metrics"] == ["stars"]
    other = str(tmp_path / "none.toml")
    assert "cannot read" in run(pool, "agents", "profile", "--config", other, code=2)["error"]["message"]


def test_the_profile_of_an_unknown_agent_is_no_empty_table(pool: Pool) -> None:
    assert "no agent 'no-such' in" in run(pool, "agents", "profile", "no-such", code=2)["error"]["message"]


def test_the_written_validation_starts_a_release(pool: Pool, tmp_path: Path) -> None:
    file = str(tmp_path / "validation.json")
    assert run(pool, "agents", "validate", OLD, NEW, "--out", file)["results"][0]["value"] == "pass"
    assert run(pool, "agents", "validate", NEW, OLD, code=1)["results"][0]["value"] == "fail"
    run(pool, "release", "start", OLD, NEW, "--validation", file)
    (started,) = pool.states(Release)
    assert (started.candidate, started.state, started.is_validation_skipped) == (NEW, "canary", False)
    refused = run(pool, "agents", "deploy", OLD, NEW, code=1)
    assert "already has release" in refused["error"]["message"]
