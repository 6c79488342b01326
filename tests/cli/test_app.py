"""The command line: lazily loaded commands, errors as messages and exit codes."""

import errno
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner, Result

from upturn import __version__
from upturn.cli.app import COMMANDS, Target, app, load
from upturn.cli.output import emit, resume_hint
from upturn.errors import ConfigError, StoreError


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module whose ``run`` is the command ``upturn doctor``."""
    module = ModuleType("fake_command")
    monkeypatch.setitem(sys.modules, "fake_command", module)
    monkeypatch.setitem(COMMANDS["upturn"], "doctor", Target("fake_command:run", "Fake."))
    return module


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def test_version_is_printed() -> None:
    result = run("--version")
    assert (result.exit_code, result.stdout) == (0, f"upturn {__version__}\n")


def test_help_lists_every_command_with_its_summary() -> None:
    result = run("--help")
    assert result.exit_code == 0
    for name, target in COMMANDS["upturn"].items():
        assert name in result.stdout
        assert target.summary[:30] in result.stdout


@pytest.mark.parametrize("name", COMMANDS["upturn"])
def test_every_command_can_be_loaded_and_has_help(name: str) -> None:
    command = load(name, COMMANDS["upturn"][name])
    assert command.name == name
    assert command.help
    result = run(name, "--help")
    assert result.exit_code == 0
    assert "--install-completion" not in result.stdout


def test_no_help_text_has_brackets_that_look_like_markup() -> None:
    def texts(command: Any) -> Iterator[str]:
        yield from (command.help or "", *(getattr(parameter, "help", None) or "" for parameter in command.params))
        for subcommand in getattr(command, "commands", {}).values():
            yield from texts(subcommand)

    loaded = [load(name, target) for program in COMMANDS.values() for name, target in program.items()]
    markup = [text for command in loaded for text in texts(command) if re.search(r"\[[a-z]", text)]
    assert markup == []


def test_unknown_command_is_wrong_usage_with_a_suggestion() -> None:
    result = run("dcotor")
    assert result.exit_code == 2
    assert "Did you mean 'doctor'" in result.stderr


@pytest.mark.parametrize(
    ("error", "exit_code", "message"),
    [
        (StoreError("the pool is gone"), 1, "error: the pool is gone\n"),
        (
            ConfigError(["a is bad", "b too"]),
            2,
            "error: 2 problems in the configuration:\n  - a is bad\n  - b too\n",
        ),
    ],
)
def test_error_is_a_message_on_stderr_without_traceback(
    command: ModuleType, error: Exception, exit_code: int, message: str
) -> None:
    def fail() -> None:
        raise error

    command.run = fail  # type: ignore[attr-defined]
    result = run("doctor")
    assert (result.exit_code, result.stdout, result.stderr) == (exit_code, "", message)


@pytest.mark.parametrize(
    ("error", "exit_code", "kind", "message"),
    [
        (StoreError("the pool is gone"), 1, "StoreError", "the pool is gone"),
        (ConfigError(["a is bad"]), 2, "ConfigError", "1 problem in the configuration:\n  - a is bad"),
        (PermissionError(13, "Permission denied", "runs"), 1, "PermissionError", "Permission denied: 'runs'"),
        (typer.BadParameter("no such colour"), 2, "BadParameter", "Invalid value: no such colour"),
        (KeyboardInterrupt(), 130, "KeyboardInterrupt", "stopped; acknowledged work is saved."),
    ],
)
def test_with_json_an_error_is_one_object_too(
    command: ModuleType, error: BaseException, exit_code: int, kind: str, message: str
) -> None:
    def fail(as_json: Annotated[bool, typer.Option("--json")] = False) -> None:
        raise error

    command.run = fail  # type: ignore[attr-defined]
    result = run("doctor", "--json")
    printed = json.loads(result.stdout)
    assert (result.exit_code, printed["command"], printed["results"]) == (exit_code, "doctor", [])
    assert (printed["error"]["kind"], printed["error"]["exit_code"]) == (kind, exit_code)
    assert printed["error"]["message"].startswith(message)
    assert printed["error"].get("problems") == (["a is bad"] if kind == "ConfigError" else None)
    assert message in result.stderr


@pytest.mark.parametrize("words", [["doctor", "--json"], ["doctor"]])
def test_output_of_agents_does_not_mix_with_the_object(command: ModuleType, words: list[str]) -> None:
    def print_lines(as_json: Annotated[bool, typer.Option("--json")] = False) -> None:
        print("thinking", file=sys.stdout)  # noqa: T201
        emit("doctor", [], {"seen": 1}, as_json=as_json)
        print("done")  # noqa: T201

    command.run = print_lines  # type: ignore[attr-defined]
    result = run(*words)
    if "--json" in words:
        assert json.loads(result.stdout)["seen"] == 1
        assert result.stderr == "thinking\ndone\n"
    else:
        assert result.stdout == "thinking\nseen: 1\ndone\n"


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (["pool", "stats", "--pool", "/none.db", "--json"], "pool stats"),
        (["pool", "stats", "--colour", "--json"], "pool stats"),
        (["pool", "--json"], "pool"),
        (["ingest", "--json"], "ingest"),
        (["release", "simulate", "--runs", "1", "--json"], "release simulate"),
        (["nothing", "--json"], ""),
        (["--json"], ""),
    ],
)
def test_the_object_of_an_error_names_the_command(arguments: list[str], name: str) -> None:
    result = run(*arguments)
    assert result.exit_code != 0
    assert json.loads(result.stdout)["command"] == name
    assert result.stderr.startswith("error: ")


def test_a_system_error_is_a_message_with_the_path(command: ModuleType) -> None:
    def fail() -> None:
        Path("/nowhere/at/all").write_text("x")

    command.run = fail  # type: ignore[attr-defined]
    result = run("doctor")
    assert (result.exit_code, result.stderr) == (1, "error: No such file or directory: '/nowhere/at/all'\n")


def test_an_argument_that_is_not_text_is_a_message(command: ModuleType) -> None:
    def fail(name: str) -> None:
        name.encode()

    command.run = fail  # type: ignore[attr-defined]
    result = run("doctor", os.fsdecode(b"ten\xffant"))
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "error: this is not Unicode text: 'ten\\udcffant'; write it in UTF-8\n"


def test_an_error_without_a_number_is_a_bug_and_keeps_its_traceback(command: ModuleType) -> None:
    def broken() -> None:
        raise OSError("read of closed file")

    command.run = broken  # type: ignore[attr-defined]
    assert isinstance(run("doctor").exception, OSError)


@pytest.mark.parametrize(
    ("shell", "exit_code"),
    [
        ("{} env list | true", 1),
        ("{} env list nothing >&- 2>&-", 2),
        ("{} env list nothing --json >/dev/full", 2),
        ("{} env list >/dev/full", 1),
        ("{} --help >/dev/full", 1),
        ("PYTHONIOENCODING=ascii {} route replay {csv} --seeds 1 --json", 0),
        ("PYTHONIOENCODING=ascii {} route replay {csv} --seeds 1", 0),
    ],
)
def test_closed_streams_and_streams_without_unicode_are_handled(shell: str, exit_code: int, tmp_path: Path) -> None:
    csv = tmp_path / "outcomes.csv"
    csv.write_text("prompt,größe ✓\np,1\nq,0\n")
    program = f"{sys.executable} -c 'from upturn.cli import main; main()'"
    # The status of the first command of the pipe.
    line = f"set -o pipefail; {shell.format(program, csv=csv)}"
    # With unbuffered output nothing is left to be written at exit.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == exit_code
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    if "csv" in shell and "--json" in shell:
        assert "model größe ✓" in [result["name"] for result in json.loads(done.stdout)["results"]]


def test_ctrl_c_exits_with_130_and_a_message(command: ModuleType) -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    command.run = stop  # type: ignore[attr-defined]
    result = run("doctor")
    assert result.exit_code == 130
    assert result.stdout == ""
    assert result.stderr.startswith("stopped; ")


def test_ctrl_c_in_resumable_work_prints_the_resume_command(command: ModuleType) -> None:
    def stop() -> None:
        with resume_hint("upturn demo --resume runs/7"):
            raise KeyboardInterrupt

    command.run = stop  # type: ignore[attr-defined]
    result = run("doctor")
    assert (result.exit_code, result.stderr) == (130, "stopped; resume with: upturn demo --resume runs/7\n")


def test_a_full_disk_in_resumable_work_prints_the_resume_command(command: ModuleType) -> None:
    def fill() -> None:
        with resume_hint("upturn demo --resume runs/7"):
            raise OSError(errno.ENOSPC, "No space left on device", "runs/7/checkpoints/000012.partial")

    command.run = fill  # type: ignore[attr-defined]
    result = run("doctor")
    assert (result.exit_code, result.stderr) == (
        1,
        "error: No space left on device: 'runs/7/checkpoints/000012.partial'; acknowledged work is saved. Free "
        "some space, then resume with: upturn demo --resume runs/7\n",
    )


def test_a_bug_keeps_its_traceback(command: ModuleType) -> None:
    def broken() -> None:
        raise ZeroDivisionError

    command.run = broken  # type: ignore[attr-defined]
    assert isinstance(run("doctor").exception, ZeroDivisionError)


def test_typer_apps_and_functions_load_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("fake_command")
    sub = typer.Typer()

    def inner() -> None:
        typer.echo("inner")

    sub.command("inner")(inner)
    sub.callback()(lambda: None)
    module.sub = sub  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "fake_command", module)
    monkeypatch.setitem(COMMANDS["upturn"], "doctor", Target("fake_command:sub", "Fake."))
    assert run("doctor", "inner").stdout == "inner\n"


def test_help_imports_nothing_heavy() -> None:
    program = (
        "import sys; sys.argv = ['upturn', '--help']\n"
        "from upturn.cli import main\n"
        "try: main()\n"
        "except SystemExit as done: assert done.code == 0\n"
        "heavy = {'torch', 'transformers', 'numpy', 'scipy', 'sqlalchemy', 'matplotlib'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "doctor" in done.stdout
