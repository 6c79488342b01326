"""``upturn route``: its output and exit codes."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from upturn.cli.route import find_decision, route_app
from upturn.config import RoutingConfig
from upturn.errors import ConfigError, IngestError, ReleaseError, UnknownNameError
from upturn.loop.run import apply_configured_freeze
from upturn.pool import ALL_TENANTS, Pool
from upturn.pool.access import admin_acts, current_freeze
from upturn.records import Alternative, Call, Decision, Feedback, Forecast, Task

FILES = Path(__file__).parents[1] / "data" / "arbiter"
ROUTELLM = Path(__file__).parents[3] / "shared" / "data" / "routellm_gsm8k_responses.csv"


def run(*words: str, code: int = 0) -> dict[str, Any]:
    result = CliRunner().invoke(route_app, [*words, "--json"])
    assert result.exit_code == code, result.output
    assert result.stdout.count("\n") == 1, "one object and nothing else on standard output"
    printed: dict[str, Any] = json.loads(result.stdout)
    printed["by_name"] = {result["name"]: result for result in printed["results"]}
    return printed


def decision(name: str, chosen: str, *, family: str = "mail", tenant: str = "default") -> Decision:
    return Decision(
        id=name,
        task_id=f"task-{name}",
        family=family,
        tenant=tenant,
        policy="uniform",
        policy_snapshot="abc",
        alternatives=(
            Alternative("a@1", 0.5, 0.75),
            Alternative("b@1", 0.5, None),
            Alternative("c@1", 0.0, None, "may not serve tenant 'default'"),
        ),
        agent=chosen.partition("@")[0],
        chosen=chosen,
        propensity=0.5,
        reason="uniform drew it",
        episode="session",
    )


@pytest.fixture
def pool(tmp_path: Path) -> Path:
    path = tmp_path / "upturn.db"
    decisions = [
        decision("d1", "a@1"),
        decision("d2", "b@1"),
        decision("d3", "b@1"),
        decision("d4", "a@1", tenant="acme"),
    ]
    with Pool.open(path) as opened:
        for item in decisions:
            opened.append(Task(item.task_id, "do", item.family, "errands", tenant=item.tenant))
        opened.append(*decisions)
    return path


def test_replay_prints_models_rewards_and_regrets() -> None:
    printed = run("replay", str(FILES / "replay.csv"), "--seeds", "2")
    assert printed["command"] == "route replay"
    by_name = printed["by_name"]
    assert by_name["model small/model"]["value"] == 4.25 / 8
    assert by_name["oracle reward"]["value"] == 6.75 / 8
    assert by_name["cheapest regret_best_single"]["value"] == 0.5 / 8
    thompson = by_name["discounted_thompson regret_oracle"]
    assert thompson["low"] <= thompson["value"] <= thompson["high"]
    assert (printed["lines"], printed["seeds"], printed["wave"]) == (8, 2, 1)
    assert printed["families"] == {"sums": 4, "words": 4}
    assert printed["quarantined"] == {"count": 0, "by_reason": {}, "lines": []}


def test_replay_counts_bad_lines_and_fails() -> None:
    printed = run("replay", str(FILES / "replay_damaged.csv"), "--seeds", "1", code=1)
    assert printed["quarantined"]["count"] == 5
    assert printed["quarantined"]["lines"][0] == {"line": 3, "reason": "no outcome for 'small/model'"}
    assert printed["lines"] == 2


def test_replay_reads_the_published_file() -> None:
    if not ROUTELLM.exists():
        pytest.skip(f"the published recording is not at {ROUTELLM}")
    by_name = run("replay", str(ROUTELLM), "--seeds", "1", "--wave", "20")["by_name"]
    assert round(by_name["model mistralai/Mixtral-8x7B-Instruct-v0.1"]["value"], 4) == 0.6384
    assert round(by_name["best_single reward"]["value"], 4) == 0.8567
    assert round(by_name["oracle reward"]["value"], 4) == 0.9287
    regret = by_name["discounted_thompson regret_best_single"]
    assert regret["value"] < by_name["uniform regret_best_single"]["value"] / 2


def test_replay_without_json_is_a_table() -> None:
    result = CliRunner().invoke(route_app, ["replay", str(FILES / "replay.csv"), "--seeds", "1"])
    assert result.exit_code == 0
    assert "discounted_thompson regret_best_single" in result.stdout
    assert "small/model_response" in result.stdout


def test_invalid_input_is_an_upturn_error(tmp_path: Path) -> None:
    assert isinstance(CliRunner().invoke(route_app, ["replay", str(tmp_path / "none.csv")]).exception, IngestError)
    words = ["replay", str(FILES / "replay.csv"), "--seeds", "0"]
    assert isinstance(CliRunner().invoke(route_app, words).exception, ConfigError)


def test_explain_shows_a_decision(pool: Path) -> None:
    printed = run("explain", "d1", "--pool", str(pool))
    assert printed["by_name"].keys() == {"probability a@1", "estimate a@1", "probability b@1"}
    assert printed["by_name"]["probability a@1"]["value"] == 0.5
    assert printed["excluded"] == {"c@1": "may not serve tenant 'default'"}
    assert (printed["chosen"], printed["propensity"], printed["episode"]) == ("a@1", 0.5, "session")
    assert "arm" not in printed


def test_explain_shows_a_familys_latest_decision_within_the_tenant(pool: Path) -> None:
    printed = run("explain", "mail", "--pool", str(pool))
    assert (printed["decision"], printed["decisions_in_family"]) == ("d3", 3)
    assert printed["chosen_in_family"] == {"b@1": 2, "a@1": 1}
    assert run("explain", "mail", "--pool", str(pool), "--all-tenants")["decision"] == "d4"
    hidden = CliRunner().invoke(route_app, ["explain", "d4", "--pool", str(pool)])
    assert isinstance(hidden.exception, UnknownNameError)


def test_unknown_decision_lists_the_known_families() -> None:
    decisions = [decision("d1", "a@1"), decision("d2", "a@1", family="sheet")]
    assert find_decision(decisions, "sheet").shares == Counter({"a@1": 1})
    with pytest.raises(UnknownNameError, match="'chat'; families with decisions: mail, sheet"):
        find_decision(decisions, "chat")
    with pytest.raises(UnknownNameError, match="no decision is stored"):
        find_decision([], "mail")


POLICY = """
agents = [
  {{ name = "a", kind = "callable", import_path = "desk:a" }},
  {{ name = "b", kind = "callable", import_path = "desk:b" }},
]
environment = {{ name = "desk:kit" }}
tasks = {{ count = 10 }}
loop = {{ train = [] }}
routing = {{ policy = "rule_based", default_agent = "{agent}" }}
"""


@pytest.fixture
def rated_pool(tmp_path: Path) -> Path:
    """400 decisions with equal shares: a@1 gets thumbs up in 90 %, b@1 in 10 %."""
    path = tmp_path / "rated.db"
    decisions = [decision(f"d{number}", "ab"[number % 2] + "@1") for number in range(400)]
    decisions = [replace(item, episode=None) for item in decisions]
    feedback = []
    for number, item in enumerate(decisions):
        is_common = number // 2 % 10 > 0
        feedback.append(
            Feedback(f"f{number}", "decision", item.id, "thumbs", 1.0 if is_common == (number % 2 == 0) else -1.0)
        )
    with Pool.open(path) as opened:
        opened.append(*decisions, *feedback)
    return path


def evaluate(pool: Path, folder: Path, agent: str, *words: str, code: int) -> dict[str, Any]:
    (folder / "new.toml").write_text(POLICY.format(agent=agent))
    return run("evaluate", str(pool), "--policy", str(folder / "new.toml"), *words, code=code)


def test_evaluate_passes_a_better_policy(rated_pool: Path, tmp_path: Path) -> None:
    """The true gain: .995 · .9 + .005 · .1 − .5 = .396."""
    printed = evaluate(rated_pool, tmp_path, "a", "--metric", "thumbs", code=0)
    assert (printed["verdict"], printed["policy"], printed["decisions"]) == ("pass", "rule_based", 400)
    by_name = printed["by_name"]
    assert list(by_name) == ["gain", "logged", "ips", "snips", "dm", "dr", "switch_dr"]
    assert by_name["snips"]["value"] == pytest.approx(0.896)
    assert by_name["dm"]["value"] == pytest.approx(0.896)
    assert by_name["logged"]["value"] == pytest.approx(0.5)
    assert by_name["gain"]["value"] == pytest.approx(0.396, abs=0.02)
    assert (by_name["gain"]["bar"], by_name["gain"]["holds"]) == ("lower limit >= -0.02", True)
    assert printed["shares"] == pytest.approx({"a": 0.995, "b": 0.005})
    assert printed["logged_shares"] == {"a": 0.5, "b": 0.5}


def test_evaluate_fails_a_worse_policy_and_refuses_without_outcomes(rated_pool: Path, tmp_path: Path) -> None:
    worse = evaluate(rated_pool, tmp_path, "b", "--metric", "thumbs", code=1)
    assert worse["verdict"] == "fail"
    assert "shown to be worse" in worse["reasons"][0]
    refused = evaluate(rated_pool, tmp_path, "a", code=1)
    assert (refused["verdict"], refused["results"]) == ("refused", [])
    assert refused["reasons"][0] == "no decision has an evaluated outcome"
    few = evaluate(rated_pool, tmp_path, "a", "--metric", "thumbs", "--min-decisions", "401", code=1)
    assert few["reasons"] == ["400 independent decisions have a reward, but 401 are needed; log more of them"]


def test_evaluate_weighs_costs_and_shows_them(tmp_path: Path) -> None:
    """a@1 succeeds in 90 % for 0.02 USD, b@1 in 80 % for 0.002 USD; at 10 a USD that is .7 against .78."""
    path, costs = tmp_path / "weighed.db", {"a@1": 0.02, "b@1": 0.002}
    records: list[Decision | Call | Feedback] = []
    for number in range(600):
        chosen = "ab"[number % 2] + "@1"
        plain = decision(f"d{number}", chosen)
        options = [
            replace(option, forecast=Forecast(costs[option.agent_version], 1.0, 0.0))
            for option in plain.alternatives[:2]
        ]
        records.append(replace(plain, episode=None, alternatives=tuple(options)))
        call = Call(f"d{number}", "default", f"e{number}", "", "chat", chosen, "answered", seconds=2.0)
        records.append(replace(call, cost_usd=costs[chosen]))
        is_good = number // 2 % 10 < (9 if chosen == "a@1" else 8)
        records.append(Feedback(f"f{number}", "decision", f"d{number}", "thumbs", 1.0 if is_good else -1.0))
    with Pool.open(path) as opened:
        opened.append(*records)
    (tmp_path / "new.toml").write_text(WEIGHED)
    printed = run("evaluate", str(path), "--policy", str(tmp_path / "new.toml"), "--metric", "thumbs")
    assert printed["objective"] == {"cost_weight": 10.0, "latency_weight": 0.0, "switch_weight": None}
    assert (printed["decisions"], printed["decisions_without_forecast"]) == (600, 0)
    assert printed["shares"]["b"] > 0.9
    by_name = printed["by_name"]
    assert by_name["logged"]["value"] == pytest.approx(0.74)
    assert by_name["gain"]["value"] > 0.02
    assert {result["unit"] for name, result in by_name.items() if name in ("gain", "logged", "dr")} == {"objective"}
    assert (by_name["logged cost"]["value"], by_name["logged cost"]["unit"]) == (pytest.approx(0.011), "USD")
    assert by_name["cost"]["value"] < 0.005
    assert (by_name["seconds"]["value"], by_name["seconds"]["unit"]) == (pytest.approx(2.0), "s")
    explained = run("explain", "d0", "--pool", str(path))["by_name"]
    assert (explained["cost a@1"]["value"], explained["handicap a@1"]["value"]) == (0.02, 0.0)


WEIGHED = """
agents = [
  { name = "a", kind = "callable", import_path = "desk:a", price = "a" },
  { name = "b", kind = "callable", import_path = "desk:b", price = "a" },
]
prices = { a = { input = 1, output = 1 } }
environment = { name = "desk:kit" }
loop = { train = [] }
routing = { policy = "epsilon_greedy", epsilon = 0.05, objective = { cost_weight = 10 } }
"""


def test_replay_shows_estimates_beside_the_truth() -> None:
    printed = run("replay", str(FILES / "replay.csv"), "--seeds", "1")
    assert printed["estimated_from"] == "one log of discounted_thompson"
    for model, estimates in printed["estimates"].items():
        assert estimates["truth"] == printed["by_name"][f"model {model}"]["value"]
        for method in ("ips", "snips", "dm", "dr", "switch_dr"):
            text = estimates[method]
            shown = printed["by_name"].get(f"{model} {method}")
            assert text.startswith("refused" if shown is None else f"{shown['value']:.3f} (")
            if shown is not None:
                holds = shown["low"] <= estimates["truth"] <= shown["high"]
                assert text.endswith("holds the truth" if holds else "misses the truth")


def test_freezing_and_unfreezing_are_recorded(tmp_path: Path) -> None:
    path, why = str(tmp_path / "pool.db"), ("--who", "ana", "--why", "audit")
    with Pool.open(path) as pool:  # a process that has it open for writing
        frozen = run("freeze", "--pool", path, *why)
        assert (frozen["frozen"], frozen["who"], frozen["until_record"]) == (True, "ana", 0)
        assert run("unfreeze", "--pool", path, *why)["was_frozen"]
        assert not run("unfreeze", "--pool", path, *why)["was_frozen"]
        assert [act.what for act in admin_acts(pool.engine, tenant=ALL_TENANTS)] == [
            "router freeze",
            "router unfreeze",
        ]
        apply_configured_freeze(pool, RoutingConfig(frozen=True))
        refused = CliRunner().invoke(route_app, ["unfreeze", "--pool", path, *why])
        assert isinstance(refused.exception, ReleaseError)
        assert current_freeze(pool.engine) is not None
