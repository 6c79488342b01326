"""The command line: lazily loaded commands, errors as messages and exit codes."""

import subprocess
import sys
from types import ModuleType

import pytest
import typer
from typer.testing import CliRunner, Result

from upturn import __version__
from upturn.cli.app import COMMANDS, Target, app, load
from upturn.cli.output import resumable
from upturn.errors import ConfigError, StoreError


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module whose ``run`` stands behind ``upturn doctor``."""
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


@pytest.mark.parametrize(("group", "name"), [(group, name) for group, names in COMMANDS.items() for name in names])
def test_every_command_can_be_loaded_and_explains_itself(group: str, name: str) -> None:
    command = load(name, COMMANDS[group][name])
    assert command.name == name
    assert command.help
    result = run(*([] if group == "upturn" else [group]), name, "--help")
    assert result.exit_code == 0
    assert "--install-completion" not in result.stdout


def test_unknown_command_is_wrong_usage_with_a_guess() -> None:
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


def test_ctrl_c_says_that_nothing_acknowledged_is_lost(command: ModuleType) -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    command.run = stop  # type: ignore[attr-defined]
    result = run("doctor")
    assert result.exit_code == 130
    assert result.stdout == ""
    assert result.stderr.startswith("stopped; ")


def test_ctrl_c_in_resumable_work_says_how_to_go_on(command: ModuleType) -> None:
    def stop() -> None:
        with resumable("upturn demo --resume runs/7"):
            raise KeyboardInterrupt

    command.run = stop  # type: ignore[attr-defined]
    result = run("doctor")
    assert (result.exit_code, result.stderr) == (130, "stopped; resume with: upturn demo --resume runs/7\n")


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


def test_help_of_the_real_command_imports_nothing_heavy() -> None:
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
