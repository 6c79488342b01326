"""``upturn loop`` on a toy desk: its output, errors before any work, and resuming."""

import importlib
import json
import shlex
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from upturn.cli import loop as loop_command
from upturn.cli.app import app
from upturn.loop.cycle import CycleOutcome
from upturn.loop.run.journal import FILE_NAME

AGENTS = """
[[agents]]
name = "solver"
kind = "callable"
import_path = "toy_desk:solver"

[[agents]]
name = "adder"
kind = "callable"
import_path = "toy_desk:adder"
"""
FILE = f"""
[environment]
name = "toy_desk:kit"
max_turns = 2

[tasks]
count = 40

[loop]
cycles = 2
train = []
{AGENTS}"""


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The current folder; the toy desk is importable during a test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, str(Path(__file__).parent.parent / "loop")])
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["loop", *arguments])


def write(folder: Path, text: str = FILE) -> None:
    (folder / "upturn.toml").write_text(text)


def printed(result: Result) -> dict[str, Any]:
    assert result.exit_code == 0, result.stderr
    content: dict[str, Any] = json.loads(result.stdout)
    return content


def figures(content: dict[str, Any]) -> dict[str, Any]:
    return {result["name"]: result["value"] for result in content["results"]}


def test_run_prints_one_object_and_writes_its_folder(folder: Path) -> None:
    write(folder)
    content = printed(run("run", "--json"))
    assert content["command"] == "loop run"
    assert content["cycles"] == ["no training is configured: tasks were routed, evaluated and stored"] * 2
    assert (figures(content)["cycle_1_decisions"], figures(content)["cycle_2_decisions"]) == (40.0, 80.0)
    run_dir = Path(content["run"])
    assert run_dir.parent == Path("runs")
    assert {path.name for path in run_dir.iterdir()} >= {FILE_NAME, "pool.db", "config.json"}
    assert json.loads((run_dir / "summary.json").read_text()) == content


def test_finished_run_is_not_run_again(folder: Path) -> None:
    write(folder)
    first = printed(run("run", "--json"))
    journal = Path(first["run"]) / FILE_NAME
    before = journal.read_text()
    for resume in ("latest", first["run"]):
        assert printed(run("run", "--resume", resume, "--json")) == first
    added = journal.read_text().removeprefix(before).splitlines()
    assert [json.loads(line)["event"] for line in added] == ["opened", "opened"]


def test_interrupted_run_prints_its_resume_command_and_ends_like_an_uninterrupted_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = "a folder/" + 150 * "r"
    write(folder, FILE + f'[run]\ndirectory = "{runs}"\n')
    uninterrupted = printed(run("run", "--json"))
    loop = importlib.import_module("upturn.loop")
    run_cycle = loop.run_cycle

    def stop_in_the_second(context: Any, number: int) -> CycleOutcome:
        if number == 2:
            raise KeyboardInterrupt
        outcome: CycleOutcome = run_cycle(context, number)
        return outcome

    monkeypatch.setattr(loop, "run_cycle", stop_in_the_second)
    stopped = run("run")
    monkeypatch.setattr(loop, "run_cycle", run_cycle)
    assert (stopped.exit_code, stopped.stdout) == (130, "")
    message, _, command = stopped.stderr.splitlines()[-1].partition("upturn ")
    assert message == "stopped; resume with: "
    status = printed(run("status", "--directory", runs, "--json"))
    assert shlex.split(command) == ["loop", "run", "--config", "upturn.toml", "--resume", status["run"]]
    resumed = printed(CliRunner().invoke(app, [*shlex.split(command), "--json"]))
    assert figures(resumed) == figures(uninterrupted)
    assert resumed["run"] == status["run"] != uninterrupted["run"]


def test_missing_configuration_is_wrong_usage(folder: Path) -> None:
    result = run("run", "--config", "no_such.toml")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "cannot read 'no_such.toml': No such file or directory; name a file with --config" in result.stderr
    assert not (folder / "runs").exists()


def test_all_problems_are_listed_together_before_any_work(folder: Path) -> None:
    write(
        folder,
        """
        colour = "red"
        [tasks]
        count = 0
        [routing]
        policy = "uniform"
        floor = 0.02
        [[agents]]
        name = "a"
        kind = "endpoint"
        url = "http://localhost:1/v1"
        model = "m"
        api_key_env = "NO_SUCH_KEY_IS_SET"
        [[agents]]
        name = "a"
        kind = "callable"
        """,
    )
    result = run("run")
    assert (result.exit_code, result.stdout) == (2, "")
    head, *listed = result.stderr[result.stderr.index("error: ") :].splitlines()
    assert head == f"error: {len(listed)} problems in the configuration:"
    for problem in (
        "colour: unknown section",
        "tasks.count: input should be greater than or equal to 1, got 0",
        "routing.floor = 0.02 has no effect with routing.policy = 'uniform'",
        "agents[1].kind = 'callable' needs agents[1].import_path",
        "agents[0].name and agents[1].name are both 'a'",
        "NO_SUCH_KEY_IS_SET",
        "no [[agents]] has a local model",
    ):
        assert sum(problem in line for line in listed) == 1, problem
    assert not (folder / "runs").exists()


def test_unknown_names_are_listed_together_before_any_work(folder: Path) -> None:
    text = FILE.replace("count = 40", 'count = 40\nfamilies = ["sums", "poems"]')
    write(folder, text.replace("toy_desk:adder", "toy_desk:no_such_agent"))
    result = run("run")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "error: 2 problems in the configuration:" in result.stderr
    assert "tasks.families names 'poems', which desk does not have; it has: sums, products" in result.stderr
    assert "agents[1].import_path: 'toy_desk' has no 'no_such_agent'" in result.stderr
    assert not (folder / "runs").exists()


@pytest.mark.parametrize("resume", ["latest", "runs/loop-1"])
def test_missing_run_cannot_be_resumed(folder: Path, resume: str) -> None:
    write(folder)
    result = run("run", "--resume", resume)
    assert (result.exit_code, result.stdout) == (1, "")
    message = "no run loop-*" if resume == "latest" else "'runs/loop-1' holds no run to resume"
    assert message in result.stderr
    assert not (folder / "runs").exists()


def test_run_of_another_configuration_cannot_be_resumed(folder: Path) -> None:
    write(folder)
    content = printed(run("run", "--json"))
    write(folder, FILE + "[run]\nseed = 1\n")
    result = run("run", "--resume", "latest")
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"the run '{content['run']}' cannot resume: config_hash is '{content['config_hash']}'" in result.stderr
    write(folder)
    assert printed(run("run", "--resume", "latest", "--json")) == content  # it was not changed


def test_agents_in_the_configuration_s_folder_are_found(folder: Path) -> None:
    project = folder / "elsewhere"
    project.mkdir()
    (project / "clerk_near.py").write_text(
        "def act(instruction, turns, observation):\n    return 'user.refuse text=no'\n"
    )
    write(project, FILE.replace("toy_desk:adder", "clerk_near:act"))
    content = printed(run("run", "--config", "elsewhere/upturn.toml", "--json"))
    assert figures(content)["cycle_2_decisions"] == 80.0


def test_the_configuration_s_folder_precedes_the_current_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = folder / "elsewhere"
    project.mkdir()
    for parent, name in ((project, "act"), (folder, "other_act")):
        (parent / "clerk_twice.py").write_text(f"def {name}(*seen):\n    return 'user.refuse text=no'\n")
    write(project, FILE.replace("toy_desk:adder", "clerk_twice:act"))
    monkeypatch.setattr(sys, "path", [*sys.path, ""])
    assert printed(run("run", "--config", "elsewhere/upturn.toml", "--json"))["cycles"]


def test_status_shows_the_steps_of_a_run(folder: Path) -> None:
    write(folder)
    content = printed(run("run", "--json"))
    for folders in ([], [content["run"]]):
        status = printed(run("status", *folders, "--json"))
        assert (status["run"], status["started_as"], status["state"]) == (
            content["run"],
            "loop run",
            "not running",
        )
        assert (status["times_resumed"], status["config_hash"]) == (0, content["config_hash"])
        assert [step["step"] for step in status["steps"]] == [
            "begin", "cycle-1/serve", "cycle-1/readiness", "cycle-2/serve", "cycle-2/readiness",
        ]  # fmt: skip
        assert all(step["finished"] for step in status["steps"])
        assert (figures(status)["steps_finished"], figures(status)["steps_open"]) == (5.0, 0.0)


def test_status_of_an_unfinished_run_names_the_open_step(folder: Path, desk: ModuleType) -> None:
    run_dir = folder / "runs" / "loop-20260101-000000"
    with desk.opened(run_dir) as context, pytest.raises(KeyboardInterrupt):
        context.journal.json_step("one", lambda: 1)
        context.journal.json_step("two", stop)
    with desk.opened(run_dir):
        status = printed(run("status", "--json"))
        assert status["state"].startswith("running in process ")
    status = printed(run("status", "--json"))
    assert (status["state"], status["times_resumed"]) == ("not running", 1)
    assert [(step["step"], step["finished"], step["seconds"] is None) for step in status["steps"]] == [
        ("begin", True, False),
        ("one", True, False),
        ("two", False, True),
    ]


def test_status_of_a_run_that_was_stopped_before_its_first_step(folder: Path, desk: ModuleType) -> None:
    with desk.opened(folder / "runs" / "loop-20260101-000000"):
        pass
    status = printed(run("status", "--json"))
    assert [step["step"] for step in status["steps"]] == ["begin"]
    assert (figures(status)["steps_finished"], figures(status)["steps_open"]) == (1.0, 0.0)


def stop() -> None:
    raise KeyboardInterrupt


@pytest.fixture
def desk() -> ModuleType:
    return importlib.import_module("toy_desk")


def test_status_without_a_run_is_an_error_with_advice() -> None:
    newest, named = run("status"), run("status", "runs/no-such-run")
    assert (newest.exit_code, named.exit_code) == (1, 1)
    assert "error: no run loop-* with a journal.jsonl under 'runs'; start one first" in newest.stderr
    assert "error: 'runs/no-such-run' holds no run: No such file or directory" in named.stderr


def test_commands_of_the_loop_module() -> None:
    assert [command.name for command in loop_command.loop_app.registered_commands] == ["run", "status"]
