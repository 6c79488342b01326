"""``upturn eval tools`` on imported tau-bench conversations."""

import json
from pathlib import Path

from typer.testing import CliRunner

from upturn.cli.app import app
from upturn.loop.evaluation.tool_adoption import helping_tools
from upturn.records import Task

SMALL = Path(__file__).parents[1] / "data" / "pool" / "tau_bench_small.json"


def test_rates_have_their_denominators(tmp_path: Path) -> None:
    pool, runner = str(tmp_path / "pool.db"), CliRunner()
    runner.invoke(app, ["ingest", str(SMALL), "--format", "tau-bench", "--pool", pool])
    ran = runner.invoke(app, ["eval", "tools", "--pool", pool, "--json"])
    assert ran.exit_code == 0
    results = {result["name"]: (result["value"], result["n"]) for result in json.loads(ran.stdout)["results"]}
    overall = {name: value for name, value in results.items() if not name.startswith("tool.")}
    useful = overall.pop("useful adoption of eligible episodes")
    assert useful[0] <= 4 / 6 and useful[1] == 6
    assert overall == {
        "episodes": (6.0, None),
        "with known tools": (6.0, None),
        "adoption of all episodes": (4 / 6, 6),
        "adoption of eligible episodes": (4 / 6, 6),
        "precision": (1.0, 4),
    }  # every task needs a tool, so there is no irrelevance
    assert results["tool.get_loan: adoption of all episodes"] == (2 / 6, 6)
    empty = runner.invoke(app, ["eval", "tools", "--pool", pool, "--tenant", "other", "--json"])
    assert [result["name"] for result in json.loads(empty.stdout)["results"]] == ["episodes", "with known tools"]


def test_what_helps_is_known_from_gold_actions_only() -> None:
    task = Task("t", "x", "f", "e")
    gold = Task("t", "x", "f", "e", context={"gold_actions": [{"name": "find"}, {"name": "desk.open"}, 3]})
    assert helping_tools(task) is None
    assert helping_tools(gold) == frozenset(("tool.find", "desk.open"))
    assert helping_tools(Task("t", "x", "f", "e", context={"gold_actions": []})) == frozenset()
