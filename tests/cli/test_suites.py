"""``upturn eval run``: its output and errors."""

import json
import signal
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from upturn.cli.evaluate import eval_app
from upturn.cli.output import StoppedError
from upturn.environments import office
from upturn.environments.office import OfficeKit
from upturn.environments.office.suites import suite_named
from upturn.errors import ConfigError, JournalError, UnknownNameError, WorldError
from upturn.loop.evaluation.evaluate import extra_heldout_tasks
from upturn.pool import Pool, Selection
from upturn.records import Run, Task


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Suites of four tasks."""
    monkeypatch.setattr(
        office,
        "suite_named",
        lambda name: suite_named(name)._replace(entries=suite_named(name).entries[::29][:4]),
    )


def run(*words: str) -> dict[str, Any]:
    result = CliRunner().invoke(eval_app, ["run", *words, "--json"])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    printed: dict[str, Any] = json.loads(result.stdout)
    printed["by_name"] = {figure["name"]: figure for figure in printed["results"]}
    return printed


def test_the_oracle_on_two_suites_has_metrics_by_suite_and_together(tmp_path: Path) -> None:
    pool = tmp_path / "pool.db"
    names = ("prodbench-safety", "prodbench-hard")
    printed = run("--suite", names[0], "--suite", names[1], "--agent", "oracle", "--pool", str(pool))
    assert printed["command"] == "eval run"
    assert (printed["agent"], printed["suites"]) == ("oracle", [suite_named(name).id for name in names])
    assert [printed["by_name"][f"{name} completion"]["n"] for name in (*names, "all")] == [4, 4, 8]
    assert printed["by_name"]["all rubric"]["value"] == 1
    assert [item["verdict"] for item in printed["attempts"]] == ["success"] * 8
    with Pool.open(pool, read_only=True) as opened:
        stored = list(opened.experiences(Selection(), tenant="default"))
    assert [item.task.id for item in stored] == [item["task"] for item in printed["attempts"]]


def test_a_custom_agent_is_given_by_its_function() -> None:
    printed = run("--suite", "prodbench-easy", "--agent", "benchmarks.errands.rules:act")
    assert printed["agent"] == "own@base"
    assert printed["by_name"]["prodbench-easy completion"]["value"] == 0
    assert printed["by_name"]["prodbench-easy first_action_p95"]["n"] == 4
    assert set(printed["attempts"][0]) == {"task", "verdict", "outcome", "turns", "failed_gates", "costs"}


def test_an_agent_of_a_file_is_given_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "upturn.toml"
    path.write_text(
        '[[agents]]\nname = "rules"\nkind = "rule_based"\nimport_path = "benchmarks.errands.rules:act"\n'
        "[loop]\ntrain = []\n"
    )
    printed = run("--suite", "prodbench-easy", "--agent", "rules", "--config", str(path))
    assert printed["agent"] == "rules@base"
    assert printed["config_hash"]
    for words, problem in (
        (("--agent", "unknown", "--config", str(path)), "no such agent; it has: rules"),
        (("--agent", "oracle", "--config", str(path)), "--config has no effect with --agent oracle"),
        (("--agent", "rules"), "name its configuration file with --config"),
    ):
        with pytest.raises(ConfigError, match=problem):
            run("--suite", "prodbench-easy", *words)


AGENT = """
import asyncio
import signal

from benchmarks.errands.rules import act as _act

instructions = []
stop_at = None

async def act(instruction, turns, observation):
    if not turns:
        if len(instructions) == stop_at:
            signal.raise_signal(signal.SIGINT)
            await asyncio.sleep(60)
        instructions.append(instruction)
    return _act(instruction, turns, observation)
"""


@pytest.fixture
def counting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """An agent that lists its instructions, and may be stopped by Ctrl-C.

    Parallel tests ignore Ctrl-C; here it has its usual effect.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    (tmp_path / "counting_agent.py").write_text(AGENT)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.delitem(sys.modules, "counting_agent", raising=False)
    yield import_module("counting_agent")
    signal.signal(signal.SIGINT, before)


def stopped(*words: str) -> str:
    """The message of a run that Ctrl-C stops."""
    with pytest.raises(StoppedError) as error:
        run(*words)
    return str(error.value)


def figures(printed: dict[str, Any]) -> list[Any]:
    """All results but times."""
    return [figure for figure in printed["results"] if "first_action" not in figure["name"]]


def test_a_resumed_run_has_the_same_results(tmp_path: Path, counting: Any) -> None:
    words = ["--agent", "counting_agent:act", "--together", "3", "--pool", str(tmp_path / "pool.db")]
    words += ["--suite", "prodbench-medium", "--suite", "prodbench-hard"]
    whole = run(*words[:4], *words[6:])
    expected = list(counting.instructions)
    assert len(expected) == 8
    counting.instructions.clear()
    counting.stop_at = 4  # the second batch, of one, of the first suite is stored already
    message = stopped(*words)
    key = message.rpartition(" ")[2]
    assert message == (
        "stopped; resume with: upturn eval run --suite prodbench-medium --suite prodbench-hard "
        f"--agent counting_agent:act --together 3 --pool {tmp_path / 'pool.db'} --resume {key}"
    )
    with Pool.open(tmp_path / "pool.db", read_only=True) as opened:
        assert len(opened.selected(tenant="default")) == 4
        assert [(record.id, record.state) for record in opened.states(Run)] == [(key, "running")]
    counting.stop_at = 7
    assert stopped(*words, "--resume", key) == message
    counting.stop_at = None
    resumed = run(*words, "--resume", key)
    assert counting.instructions == expected
    assert figures(resumed) == figures(whole)
    assert resumed["attempts"] == whole["attempts"]
    timed = "prodbench-medium first_action_p95"
    assert (resumed["run"], resumed["by_name"][timed]["n"]) == (key, 4)
    again = run(*words, "--resume", key)
    assert len(counting.instructions) == 8
    assert (again["results"], again["attempts"]) == (resumed["results"], resumed["attempts"])
    with Pool.open(tmp_path / "pool.db", read_only=True) as opened:
        assert [record.state for record in opened.states(Run)] == ["done"]
        assert len(opened.selected(tenant="default")) == 8


def test_an_unfinished_batch_is_repeated(tmp_path: Path, counting: Any) -> None:
    words = ["--agent", "counting_agent:act", "--together", "2", "--pool", str(tmp_path / "pool.db")]
    counting.stop_at = 3
    key = stopped(*words, "--suite", "prodbench-medium").rpartition(" ")[2]
    first = list(counting.instructions)
    counting.stop_at = None
    run(*words, "--suite", "prodbench-medium", "--resume", key)
    assert counting.instructions[3:] == [first[2], counting.instructions[-1]]


def test_a_run_is_resumed_with_the_same_options_only(tmp_path: Path) -> None:
    words = ["--agent", "oracle", "--pool", str(tmp_path / "pool.db")]
    key = run(*words, "--suite", "prodbench-medium")["run"]
    assert run(*words, "--suite", "prodbench-medium")["run"] != key  # in the same second, too
    for further, error, problem in (
        (("--resume", "eval-1"), UnknownNameError, "has no run 'eval-1'; omit --resume to start one"),
        (
            ("--together", "3", "--resume", key),
            JournalError,
            "command was '.*--together 32', is '.*--together 3'",
        ),
    ):
        with pytest.raises(error, match=problem):
            run(*words, "--suite", "prodbench-medium", *further)
    with pytest.raises(ConfigError, match="--resume x has no effect without --pool"):
        run("--agent", "oracle", "--suite", "prodbench-medium", "--resume", "x")


def test_extra_held_out_tasks_are_a_part_of_their_own_and_of_all() -> None:
    words = ["--agent", "oracle", "--heldout", "5", "--family", "cell_say", "--family", "mail_number"]
    printed = run("--suite", "prodbench-safety", *words, "--seed", "3")
    assert printed["suites"] == [suite_named("prodbench-safety").id, "heldout/3"]
    tasks = [task.id for task in extra_heldout_tasks(OfficeKit(), ("cell_say", "mail_number"), 5, seed=3)]
    assert [item["task"] for item in printed["attempts"]][4:] == tasks
    counts = {
        name: printed["by_name"][f"{name} completion"]["n"] for name in ("prodbench-safety", "heldout", "all")
    }
    assert counts == {"prodbench-safety": 4, "heldout": 6, "all": 10}
    assert printed["by_name"]["all hard_violations"]["n"] == 10
    alone = run(*words)
    assert alone["suites"] == ["heldout/0"]
    assert {figure["name"].split()[0] for figure in alone["results"]} == {"heldout"}


def test_extra_tasks_are_of_all_families_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    requested: list[str] = []

    def draw(kit: OfficeKit, families: Sequence[str], count: int, *, seed: int) -> list[Task]:
        requested.extend(families)
        return extra_heldout_tasks(kit, families[:1], count, seed=seed)

    monkeypatch.setattr("upturn.loop.evaluation.extra_heldout_tasks", draw)
    run("--agent", "oracle", "--heldout", "1")
    assert requested == list(OfficeKit().families)


def test_the_seed_of_extra_tasks_is_the_file_s_by_default(tmp_path: Path) -> None:
    path = tmp_path / "upturn.toml"
    path.write_text(
        '[run]\nseed = 5\n[[agents]]\nname = "rules"\nkind = "rule_based"\n'
        'import_path = "benchmarks.errands.rules:act"\n[loop]\ntrain = []\n'
    )
    words = ["--agent", "rules", "--config", str(path), "--heldout", "1", "--family", "cell_say"]
    assert run(*words)["suites"] == ["heldout/5"]
    assert run(*words, "--seed", "0")["suites"] == ["heldout/0"]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ((), "there are no tasks; name frozen suites with --suite, or set --heldout"),
        (
            ("--suite", "prodbench-easy", "--family", "cell_say"),
            "--family without --heldout: the tasks of a frozen suite",
        ),
        (("--suite", "prodbench-easy", "--family", "a", "--seed", "0"), "--family, --seed without --heldout"),
    ],
)
def test_options_without_effect_are_refused(words: tuple[str, ...], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        run("--agent", "oracle", *words)


def test_an_unknown_family_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="unknown office family 'fax'"):
        run("--agent", "oracle", "--heldout", "1", "--family", "fax")


def test_extra_tasks_are_resumed(tmp_path: Path, counting: Any) -> None:
    words = ["--agent", "counting_agent:act", "--together", "2", "--suite", "prodbench-medium"]
    words += ["--heldout", "6", "--family", "cell_say", "--seed", "2"]
    whole, pool = run(*words), str(tmp_path / "pool.db")
    expected = list(counting.instructions)
    assert len(expected) == 10
    counting.instructions.clear()
    counting.stop_at = 8
    message = stopped(*words, "--pool", pool)
    key = message.rpartition(" ")[2]
    assert " --suite prodbench-medium --heldout 6 --family cell_say --seed 2 --agent counting_agent:act " in message
    counting.stop_at = None
    resumed = run(*words, "--pool", pool, "--resume", key)
    assert counting.instructions == expected
    assert (figures(resumed), resumed["attempts"]) == (figures(whole), whole["attempts"])
    more = [*words[:7], "8", *words[8:]]
    with pytest.raises(JournalError, match=r"command was '.*--heldout 6 .*', is '.*--heldout 8 "):
        run(*more, "--pool", pool, "--resume", key)


def test_unknown_and_drifted_suites_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    drifted = suite_named("prodbench-easy").entries[0]._replace(content="")
    monkeypatch.setattr(office, "suite_named", lambda name: suite_named(name)._replace(entries=(drifted,)))
    with pytest.raises(UnknownNameError, match="unknown suite 'easy'"):
        run("--suite", "easy", "--agent", "oracle")
    with pytest.raises(WorldError, match="1 of 1 tasks are not what was frozen"):
        run("--suite", "prodbench-easy", "--agent", "oracle")


def test_a_run_in_which_every_rollout_failed_exits_with_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_agent.py").write_text("def act(instruction, turns, observation):\n    return 1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    result = CliRunner().invoke(
        eval_app, ["run", "--suite", "prodbench-easy", "--agent", "broken_agent:act", "--json"]
    )
    assert result.exit_code == 1
    assert "4 of 4 trajectories ended in model_error: " in result.stderr
    assert {item["outcome"] for item in json.loads(result.stdout)["attempts"]} == {"model_error"}
