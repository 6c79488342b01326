"""The ``upturn`` command: finds a command's module when called, and turns errors into messages and exit codes.

Nothing is imported for a command that is not called, so ``upturn --help`` answers without the database, torch or
anything else heavy. Exit codes: 0 it worked; 1 it did not, or a bar was missed; 2 wrong usage or configuration;
130 stopped by Ctrl-C.
"""

import importlib
import sys
from typing import Annotated, Any, NamedTuple, cast

import typer
from typer.core import TyperGroup
from typer.main import get_command as as_command

from upturn import __version__
from upturn.cli.output import StoppedError, say
from upturn.errors import UpturnError


class Target(NamedTuple):
    """Where a command lives and what the list of commands says about it."""

    path: str
    """``module:attribute``; the attribute is a function or a Typer app."""
    summary: str


COMMANDS: dict[str, dict[str, Target]] = {
    "upturn": {
        "demo": Target("upturn.cli.demo:demo", "See the whole loop improve an agent on this machine, in minutes."),
        "loop": Target("upturn.cli.loop:loop_app", "Run the loop on your own tasks and agents."),
        "model": Target("upturn.cli.model:model_app", "The model that ships with Upturn: facts, rebuilding."),
        "ingest": Target("upturn.cli.ingest:ingest", "Read recorded trajectories into a pool."),
        "pool": Target("upturn.cli.pool:pool_app", "Look at, check and export the evidence in a pool."),
        "route": Target(
            "upturn.cli.route:route_app", "Replay recordings through routing policies; explain decisions."
        ),
        "env": Target("upturn.cli.env:env_app", "List, validate, play and measure environments."),
        "release": Target("upturn.cli.release:release_app", "Let candidates in step by step, and take them out."),
        "bench": Target("upturn.cli.app:bench_app", "Measure what Upturn claims."),
        "doctor": Target("upturn.cli.doctor:doctor", "Check this machine: one line each, with what to do."),
    },
    "bench": {
        "release": Target(
            "upturn.cli.bench_release:bench_release", "How often the canary errs, how fast it decides."
        ),
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
            say(str(exc) if isinstance(exc, StoppedError) else f"error: {exc}")
            raise typer.Exit(exc.exit_code) from exc
        except KeyboardInterrupt as exc:
            say("stopped; what was acknowledged is kept. Run the same command again, with --resume where it has it")
            raise typer.Exit(StoppedError.exit_code) from exc


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


def _group(name: str, summary: str) -> typer.Typer:
    group = typer.Typer(
        name=name,
        help=summary,
        cls=LazyGroup,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,  # they print local variables, which may hold keys
    )
    for command, target in COMMANDS[name].items():
        group.command(command, help=target.summary)(_listed)
    return group


app = _group("upturn", "Agents that get better by working: route, run, judge, remember, train, release.")
bench_app = _group("bench", COMMANDS["upturn"]["bench"].summary)


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
    """Runs the command line with the process's arguments and exits.

    Import paths such as ``shop:kit`` are looked up in the folder it is started in too, after everything installed.
    """
    if "" not in sys.path:
        sys.path.append("")
    app(prog_name="upturn")
