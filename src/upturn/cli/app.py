"""The ``upturn`` command: imports a command's module when it is called; errors become messages and exit codes.

``upturn --help`` therefore loads neither the database nor torch. Exit codes: 0 success; 1 failure, or a missed bar
of a command that checks; 2 wrong usage or configuration; 130 interrupted by Ctrl-C. With ``--json`` an error is
also printed as one object on standard output. Only bugs of Upturn show a traceback."""

import errno
import importlib
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from io import TextIOWrapper
from typing import Annotated, Any, NamedTuple, NoReturn, cast

import typer
from typer.core import TyperGroup
from typer.main import get_command as as_command

from upturn import __version__
from upturn.cli.output import StoppedError, emit_error, print_message, reserve_stdout
from upturn.errors import UpturnError
from upturn.threads import wait_passively


class Target(NamedTuple):
    """The location of a command and its line in the list of commands."""

    path: str
    """``module:attribute`` of a function or a Typer app."""
    summary: str


UPTURN: dict[str, Target] = {
    "demo": Target("upturn.cli.demo:demo", "Run the whole loop on this machine, in minutes."),
    "up": Target("upturn.cli.up:up", "Serve agents to any client at one base URL."),
    "loop": Target("upturn.cli.loop:loop_app", "Run the loop on your own tasks and agents."),
    "model": Target("upturn.cli.model:model_app", "Show and rebuild the models that ship with Upturn."),
    "ingest": Target("upturn.cli.ingest:ingest", "Import recorded trajectories or feedback into a pool."),
    "pool": Target("upturn.cli.pool.commands:pool_app", "Inspect, check and export the trajectories in a pool."),
    "route": Target(
        "upturn.cli.route:route_app",
        "Replay recordings, evaluate new policies, freeze the router, explain decisions.",
    ),
    "agents": Target("upturn.cli.agents:agents_app", "Show, limit, validate and deploy agents."),
    "env": Target("upturn.cli.env.commands:env_app", "List, validate, play and benchmark environments."),
    "eval": Target(
        "upturn.cli.evaluate:eval_app", "Evaluate an agent on frozen suites; repeat stored evaluations."
    ),
    "train": Target("upturn.cli.train:train_app", "Train an agent; report on training runs."),
    "release": Target("upturn.cli.release:release_app", "Start, inspect and control canary releases."),
    "audit": Target("upturn.cli.audit:audit_app", "Verify the audit log of a pool, and prove its entries."),
    "keys": Target("upturn.cli.keys:keys_app", "Add, list and revoke the gateway's API keys."),
    "doctor": Target("upturn.cli.doctor:doctor", "Check this machine's setup."),
}
"""Commands of ``upturn``, in the order of the help text."""
COMMANDS: dict[str, dict[str, Target]] = {}
"""Commands by program; ``command_group`` adds a program."""


class LazyGroup(TyperGroup):
    """A group whose commands are imported when called, and whose errors become messages on standard error."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The called command's name, the imported command and its arguments."""
        name, listed, rest = super().resolve_command(ctx, args)
        target = COMMANDS[self.name or ""].get(name or "")
        return name, listed if target is None else load(name or "", target), rest

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """The arguments left for the command; all arguments are stored for ``invoke``."""
        ctx.obj = tuple(args)
        with _handle_errors(ctx):
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Runs the command."""
        with reserve_stdout() if "--json" in ctx.obj else nullcontext(), _handle_errors(ctx):
            return super().invoke(ctx)


_UsageError = cast(type[Exception], typer.BadParameter.__base__)
"""Base class of all errors about arguments."""


@contextmanager
def _handle_errors(ctx: Any) -> Iterator[None]:
    """Turns errors of the block into a message and an exit code, with ``--json`` also into one object."""
    try:
        yield
    except KeyboardInterrupt as exc:
        hint = "Run the same command again, with --resume if it has that option"
        _exit(ctx, StoppedError(f"stopped; acknowledged work is saved. {hint}"), exc)
    except UpturnError as exc:
        _exit(ctx, exc, exc)
    except OSError as exc:
        # Errors without a number do not come from the system; a closed pipe is not an error.
        if exc.errno is None or exc.errno == errno.EPIPE:
            raise
        path = "" if exc.filename is None else f": {os.fsdecode(exc.filename)!r}"
        _exit(ctx, UpturnError(f"{exc.strerror}{path}"), exc)
    except UnicodeEncodeError as exc:
        # Arguments and file names may be any bytes.
        _exit(ctx, UpturnError(f"this is not Unicode text: {exc.object[:100]!r}; write it in UTF-8"), exc)
    except _UsageError as exc:
        if "--json" not in ctx.obj:
            raise  # shown with the usage
        error = UpturnError(exc.format_message())  # type: ignore[attr-defined]  # declared by a private base
        error.exit_code = 2
        _exit(ctx, error, exc)


def _exit(ctx: Any, error: UpturnError, cause: BaseException) -> NoReturn:
    print_message(str(error) if isinstance(error, StoppedError) else f"error: {error}")
    if "--json" in ctx.obj:
        with suppress(OSError):  # standard output may be what failed
            emit_error(_command_name(ctx.command_path, ctx.obj), error, kind=type(cause).__name__)
    _discard_unwritten_output()
    raise typer.Exit(error.exit_code) from cause


def _discard_unwritten_output() -> None:
    """Discards output that cannot be written: Python would try again at exit, and exit with 120."""
    if sys.__stdout__ is None:
        return
    try:
        sys.__stdout__.flush()
    except OSError:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.__stdout__.fileno())
        os.close(null)


def _command_name(path: str, arguments: Sequence[str]) -> str:
    """The command's name in results, such as ``pool stats``; empty for an unknown command."""
    program, *rest = path.split()
    words = [*rest, *arguments]
    target = COMMANDS[program].get(words[0]) if words else None
    count = 0 if target is None else 2 if target.path.endswith("_app") else 1
    name = " ".join(word for word in words[:count] if not word.startswith("-"))
    return name if program == "upturn" or not name else f"{program} {name}"


def load(name: str, target: Target) -> Any:
    """The command at ``target``, imported and named ``name``."""
    module, _, attribute = target.path.partition(":")
    command = getattr(importlib.import_module(module), attribute)
    holder = typer.Typer(add_completion=False)
    if not isinstance(command, typer.Typer):
        holder.command(name)(command)
        return as_command(holder)
    holder.add_typer(command, name=name, help=target.summary, no_args_is_help=True)
    return cast(TyperGroup, as_command(holder)).commands[name]


def _placeholder() -> None:
    """An entry of the list of commands; ``LazyGroup`` replaces it by the command."""


def command_group(name: str, summary: str, commands: dict[str, Target]) -> typer.Typer:
    """A program with these commands, each imported when it is called."""
    COMMANDS[name] = commands
    group = typer.Typer(
        name=name,
        help=summary,
        cls=LazyGroup,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,  # they print local variables, which may contain API keys
    )
    for command, target in commands.items():
        group.command(command, help=target.summary)(_placeholder)
    return group


app = command_group("upturn", "Agents that get better by working: route, run, evaluate, train, release.", UPTURN)


def _print_version(is_set: bool) -> None:
    if is_set:
        typer.echo(f"upturn {__version__}")
        raise typer.Exit


@app.callback(help=app.info.help)
def _root(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options before any command."""


def main() -> None:
    """Runs ``upturn`` with the process's arguments and exits."""
    run_command_line(app, "upturn")


def run_command_line(program: typer.Typer, name: str) -> None:
    """Runs the program with the process's arguments and exits.

    Import paths such as ``shop:kit`` are also resolved in the current folder, after installed packages. Idle torch
    threads sleep, unless the environment sets otherwise.
    """
    if "" not in sys.path:
        sys.path.append("")
    for output in ("stdout", "stderr"):
        stream = getattr(sys, output)
        if stream is None:  # closed by the parent process
            setattr(sys, output, open(os.devnull, "w"))  # noqa: SIM115, PTH123  open until the end
        elif isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # for terminals without Unicode
    wait_passively(os.environ)
    program(prog_name=name)
