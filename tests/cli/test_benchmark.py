"""``upturn eval run``: what it prints, and what it refuses."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from upturn.cli.evaluate import eval_app
from upturn.environments.office import benchmark
from upturn.environments.office.benchmark import suite_named
from upturn.errors import ConfigError, UnknownNameError, WorldError
from upturn.pool import Pool, Selection


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Suites of four tasks."""
    monkeypatch.setattr(
        benchmark,
        "suite_named",
        lambda name: suite_named(name)._replace(entries=suite_named(name).entries[::29][:4]),
    )


def run(*words: str) -> dict[str, Any]:
    found = CliRunner().invoke(eval_app, ["run", *words, "--json"])
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        raise found.exception
    assert found.exit_code == 0, found.output
    printed: dict[str, Any] = json.loads(found.stdout)
    printed["by_name"] = {result["name"]: result for result in printed["results"]}
    return printed


def test_perfect_work_on_two_suites_is_told_by_suite_and_together(tmp_path: Path) -> None:
    pool = tmp_path / "pool.db"
    names = ("prodbench-safety", "prodbench-hard")
    printed = run("--suite", names[0], "--suite", names[1], "--agent", "oracle", "--pool", str(pool))
    assert printed["command"] == "eval run"
    assert (printed["agent"], printed["suites"]) == ("oracle", [suite_named(name).id for name in names])
    assert [printed["by_name"][f"{each} completion"]["n"] for each in (*names, "all")] == [4, 4, 8]
    assert printed["by_name"]["all rubric"]["value"] == 1
    assert [each["verdict"] for each in printed["attempts"]] == ["success"] * 8
    with Pool.open(pool, read_only=True) as opened:
        stored = list(opened.experiences(Selection(), tenant="default"))
    assert [each.task.id for each in stored] == [each["task"] for each in printed["attempts"]]


def test_an_agent_of_ones_own_is_named_by_its_function() -> None:
    printed = run("--suite", "prodbench-easy", "--agent", "upturn.environments.errands.rules:act")
    assert printed["agent"] == "own@base"
    assert printed["by_name"]["prodbench-easy completion"]["value"] == 0
    assert printed["by_name"]["prodbench-easy first_action_p95"]["n"] == 4
    assert set(printed["attempts"][0]) == {"task", "verdict", "outcome", "turns", "failed_gates", "costs"}


def test_an_agent_of_a_file_is_named_as_it_stands_there(tmp_path: Path) -> None:
    path = tmp_path / "upturn.toml"
    path.write_text(
        '[[agents]]\nname = "rules"\nkind = "rule_based"\nimport_path = "upturn.environments.errands.rules:act"\n'
        "[sft]\nenabled = false\n[grpo]\nenabled = false\n"
    )
    printed = run("--suite", "prodbench-easy", "--agent", "rules", "--config", str(path))
    assert printed["agent"] == "rules@base"
    assert printed["config_hash"]
    for words, problem in (
        (("--agent", "nobody", "--config", str(path)), "no such agent; it has: rules"),
        (("--agent", "oracle", "--config", str(path)), "--config has no effect with --agent oracle"),
        (("--agent", "rules"), "name the file that it stands in with --config"),
    ):
        with pytest.raises(ConfigError, match=problem):
            run("--suite", "prodbench-easy", *words)


def test_unknown_and_drifted_suites_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    drifted = suite_named("prodbench-easy").entries[0]._replace(content="")
    monkeypatch.setattr(benchmark, "suite_named", lambda name: suite_named(name)._replace(entries=(drifted,)))
    with pytest.raises(UnknownNameError, match="unknown suite 'easy'"):
        run("--suite", "easy", "--agent", "oracle")
    with pytest.raises(WorldError, match="1 of 1 tasks are not what was frozen"):
        run("--suite", "prodbench-easy", "--agent", "oracle")
