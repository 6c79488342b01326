"""The ``upturn`` command: finds a command's module when called, and turns errors into messages and exit codes.

Nothing is imported for a command that is not called, so ``upturn --help`` answers without the database, torch or
anything else heavy. Exit codes: 0 it worked; 1 it did not, or a bar was missed; 2 wrong usage or configuration;
130 stopped by Ctrl-C.
"""

import importlib
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup
from typer.main import get_command as as_command

from upturn import __version__
from upturn.cli.output import say
from upturn.errors import UpturnError

STOPPED_EXIT_CODE = 130
"""128 + SIGINT, as shells have it."""


class Target(NamedTuple):
    """Where a command lives and what the list of commands says about it."""

    path: str
    """``module:attribute``; the attribute is a function or a Typer app."""
    summary: str


COMMANDS: dict[str, dict[str, Target]] = {
    "upturn": {
        "doctor": Target("upturn.cli.doctor:doctor", "Check this machine: one line each, with what to do."),
    },
}
"""Commands by group, in the order of the help text."""


class LazyGroup(TyperGroup):
    """A group whose commands are imported when called; its errors become messages on standard error."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The called command's name, the command itself (imported now) and its arguments."""
        name, listed, rest = super().resolve_command(ctx, args)
        target = COMMANDS[self.name or ""].get(name or "")
        return name, listed if target is None else load(name or "", target), rest

    def invoke(self, ctx: Any) -> Any:
        """Runs the command; its exit code says how it ended."""
        try:
            return super().invoke(ctx)
        except UpturnError as exc:
            say(f"error: {exc}")
            raise typer.Exit(exc.exit_code) from exc
        except KeyboardInterrupt as exc:
            say("stopped; what was acknowledged is kept. Run the same command again, with --resume where it has it")
            raise typer.Exit(STOPPED_EXIT_CODE) from exc


def load(name: str, target: Target) -> Any:
    """The command at ``target``, imported and named ``name``."""
    module, _, attribute = target.path.partition(":")
    found = getattr(importlib.import_module(module), attribute)
    if not isinstance(found, typer.Typer):
        single = typer.Typer(add_completion=False)
        single.command(name)(found)
        found = single
    command = as_command(found)
    command.name = name
    return command


def _listed() -> None:
    """Stands in the list of commands; ``LazyGroup`` replaces it before it could run."""


def _group(name: str) -> typer.Typer:
    group = typer.Typer(
        name=name, cls=LazyGroup, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
    )
    for command, target in COMMANDS[name].items():
        group.command(command, help=target.summary)(_listed)
    return group


app = _group("upturn")


def _print_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"upturn {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Agents that get better by working: route, run, judge, remember, train, release."""


def main() -> None:
    """Runs the command line with the process's arguments and exits."""
    app(prog_name="upturn")
