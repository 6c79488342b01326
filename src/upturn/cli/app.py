"""The ``upturn`` command: finds a command's module when called, and turns errors into messages and exit codes.

Nothing is imported for a command that is not called, so ``upturn --help`` answers without the database, torch or
anything else heavy. Exit codes: 0 it worked; 1 it did not, or a bar was missed; 2 wrong usage or configuration;
130 stopped by Ctrl-C. With ``--json`` an error, too, is one object on standard output, beside the message. Only a
mistake in Upturn itself shows a traceback.
"""

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
from upturn.cli.output import StoppedError, emit_error, kept_for_json, say
from upturn.errors import UpturnError
from upturn.threads import wait_passively


class Target(NamedTuple):
    """Where a command lives and what the list of commands says about it."""

    path: str
    """``module:attribute``; the attribute is a function or a Typer app."""
    summary: str


UPTURN: dict[str, Target] = {
    "demo": Target("upturn.cli.demo:demo", "See the whole loop improve an agent on this machine, in minutes."),
    "loop": Target("upturn.cli.loop:loop_app", "Run the loop on your own tasks and agents."),
    "model": Target("upturn.cli.model:model_app", "The model that ships with Upturn: facts, rebuilding."),
    "ingest": Target("upturn.cli.ingest:ingest", "Read recorded trajectories into a pool."),
    "pool": Target("upturn.cli.pool:pool_app", "Look at, check and export the evidence in a pool."),
    "route": Target("upturn.cli.route:route_app", "Replay recordings through routing policies; explain decisions."),
    "env": Target("upturn.cli.env.commands:env_app", "List, validate, play and measure environments."),
    "eval": Target(
        "upturn.cli.evaluate:eval_app", "Let an agent work on frozen suites; make stored judgements again."
    ),
    "train": Target("upturn.cli.train:train_app", "Train an agent by one way of learning; look at training runs."),
    "release": Target("upturn.cli.release:release_app", "Let candidates in step by step, and take them out."),
    "doctor": Target("upturn.cli.doctor:doctor", "Check this machine: one line each, with what to do."),
}
"""Commands of ``upturn``, in the order of the help text."""
COMMANDS: dict[str, dict[str, Target]] = {}
"""Commands by program; ``command_group`` adds one."""


class LazyGroup(TyperGroup):
    """A group whose commands are imported when called; its errors become messages on standard error."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The called command's name, the command itself (imported now) and its arguments."""
        name, listed, rest = super().resolve_command(ctx, args)
        target = COMMANDS[self.name or ""].get(name or "")
        return name, listed if target is None else load(name or "", target), rest

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """The arguments that are left for the command; all of them are kept for ``invoke``."""
        ctx.obj = tuple(args)
        with _told(ctx):
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Runs the command; its exit code says how it ended."""
        with kept_for_json() if "--json" in ctx.obj else nullcontext(), _told(ctx):
            return super().invoke(ctx)


_WRONG_USAGE = cast(type[Exception], typer.BadParameter.__base__)
"""What every complaint about arguments is."""


@contextmanager
def _told(ctx: Any) -> Iterator[None]:
    """Errors of the block as a message and an exit code; with ``--json`` as one object, too."""
    arguments: tuple[str, ...] = ctx.obj
    try:
        yield
    except KeyboardInterrupt as exc:
        words = "stopped; what was acknowledged is kept. Run the same command again, with --resume where it has it"
        _end(ctx, StoppedError(words), exc)
    except UpturnError as exc:
        _end(ctx, exc, exc)
    except OSError as exc:
        # Without a number it did not come from the system; a closed pipe is nobody's error.
        if exc.errno is None or exc.errno == errno.EPIPE:
            raise
        place = "" if exc.filename is None else f": {os.fsdecode(exc.filename)!r}"
        _end(ctx, UpturnError(f"{exc.strerror}{place}"), exc)
    except UnicodeEncodeError as exc:
        # Arguments and names of files may be any bytes; what is stored and asked for is text.
        _end(ctx, UpturnError(f"this is not Unicode text: {exc.object[:100]!r}; write it in UTF-8"), exc)
    except _WRONG_USAGE as exc:
        if "--json" not in arguments:
            raise  # shown with the usage
        wrong = UpturnError(exc.format_message())  # type: ignore[attr-defined]  # declared by a private base
        wrong.exit_code = 2
        _end(ctx, wrong, exc)


def _end(ctx: Any, error: UpturnError, cause: BaseException) -> NoReturn:
    say(str(error) if isinstance(error, StoppedError) else f"error: {error}")
    if "--json" in ctx.obj:
        with suppress(OSError):  # what is told may be that nothing can be printed
            emit_error(_command_name(ctx.command_path, ctx.obj), error, kind=type(cause).__name__)
    _give_up_unwritten()
    raise typer.Exit(error.exit_code) from cause


def _give_up_unwritten() -> None:
    """Drops what standard output does not take: Python would try once more as it ends, and exit with 120."""
    if sys.__stdout__ is None:
        return
    try:
        sys.__stdout__.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.__stdout__.fileno())
        os.close(nowhere)


def _command_name(path: str, arguments: Sequence[str]) -> str:
    """The command as results name it, such as ``pool stats``; empty where there is none of that name."""
    program, *rest = path.split()
    words = [*rest, *arguments]
    target = COMMANDS[program].get(words[0]) if words else None
    count = 0 if target is None else 2 if target.path.endswith("_app") else 1
    name = " ".join(word for word in words[:count] if not word.startswith("-"))
    return name if program == "upturn" or not name else f"{program} {name}"


def load(name: str, target: Target) -> Any:
    """The command at ``target``, imported and named ``name``."""
    module, _, attribute = target.path.partition(":")
    found = getattr(importlib.import_module(module), attribute)
    holder = typer.Typer(add_completion=False)
    if not isinstance(found, typer.Typer):
        holder.command(name)(found)
        return as_command(holder)
    holder.add_typer(found, name=name)
    return cast(TyperGroup, as_command(holder)).commands[name]


def _listed() -> None:
    """Stands in the list of commands; ``LazyGroup`` replaces it before it could run."""


def command_group(name: str, summary: str, commands: dict[str, Target]) -> typer.Typer:
    """A program of ``commands``, each imported when it is called."""
    COMMANDS[name] = commands
    group = typer.Typer(
        name=name,
        help=summary,
        cls=LazyGroup,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,  # they print local variables, which may hold keys
    )
    for command, target in commands.items():
        group.command(command, help=target.summary)(_listed)
    return group


app = command_group(
    "upturn", "Agents that get better by working: route, run, judge, remember, train, release.", UPTURN
)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"upturn {__version__}")
        raise typer.Exit


@app.callback(help=app.info.help)
def _root(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Takes the options that stand before any command."""


def main() -> None:
    """Runs the ``upturn`` command with the process's arguments and exits."""
    run_command_line(app, "upturn")


def run_command_line(program: typer.Typer, name: str) -> None:
    """Runs the program with the process's arguments and exits.

    Import paths such as ``shop:kit`` are looked up in the folder it is started in too, after everything installed.
    Idle threads of torch sleep, unless the environment says otherwise.
    """
    if "" not in sys.path:
        sys.path.append("")
    for output in ("stdout", "stderr"):
        stream = getattr(sys, output)
        if stream is None:  # closed by whoever started us
            setattr(sys, output, open(os.devnull, "w"))  # noqa: SIM115, PTH123  open until the end
        elif isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that lacks a sign shows another one
    wait_passively(os.environ)
    program(prog_name=name)
