"""Options that several commands share, and the configuration file that one of them names."""

import os
import sys
import tomllib
from getpass import getuser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from upturn.config import Config, MetricConfig

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
ConfigPath = Annotated[Path, typer.Option("--config", help="Path of the configuration file.")]
Resume = Annotated[str | None, typer.Option("--resume", help="Resume a run: its folder, or 'latest'.")]
PoolPath = Annotated[str, typer.Option("--pool", help="File or URL (postgresql://…) of the pool.")]
Tenant = Annotated[str, typer.Option("--tenant", help="Tenant whose records to use.")]
AllTenants = Annotated[bool, typer.Option("--all-tenants", help="Use the records of all tenants.")]
Who = Annotated[str, typer.Option("--who", help="Who does this; stored. Default: the user's name on this machine.")]
Why = Annotated[str, typer.Option("--why", help="Reason; stored.")]
Since = Annotated[
    str | None, typer.Option("--since", help="Recorded at or after this day or time (ISO 8601, UTC).")
]
Before = Annotated[str | None, typer.Option("--before", help="Recorded before this day or time.")]
Families = Annotated[list[str] | None, typer.Option("--family", help="Only this task family; repeatable.")]

MetricsConfig = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help="Configuration file with the metrics of feedback. Default: upturn.toml if there is one, else the "
        "default metrics.",
    ),
]

CONFIG_PATH = Path("upturn.toml")
POOL_PATH = "upturn.db"


def time_of(option: str, text: str | None) -> float | None:
    """Returns seconds since 1970 of an ISO 8601 day or time; without a zone it is UTC. None = none is given."""
    from upturn.pool.answers import read_moment

    try:
        return None if text is None else read_moment(text)
    except ValueError as exc:
        raise typer.BadParameter(f"{option} {exc}") from exc


def user_name() -> str:
    """The user's name on this machine; raises ConfigError if there is none."""
    from upturn.errors import ConfigError

    try:
        return getuser()
    except (KeyError, OSError) as exc:  # a container's user without a name
        raise ConfigError(["this user has no name; set --who"]) from exc


def read_config(path: Path, *algorithms: str) -> "Config":
    """The configuration with the sections of all algorithms; ``algorithms``: import paths of further ones.

    Import paths are resolved in the file's folder from now on, before the current folder.
    """
    from upturn.loop.trainers import load_full_config

    current_folder = sys.path.index("") if "" in sys.path else len(sys.path)
    sys.path.insert(current_folder, str(path.resolve().parent))
    return load_full_config(path, os.environ, *algorithms)


def configured_metrics(path: Path | None) -> "Sequence[MetricConfig]":
    """The metrics of feedback in a configuration; () = the default ones. ``path`` None = this folder's, if any.

    API keys and files that the configuration names need not exist. Raises ConfigError for one that is wrong.
    """
    from upturn.errors import ConfigError
    from upturn.loop.trainers import parse_full_config

    if path is None and not CONFIG_PATH.exists():
        return ()
    path = path or CONFIG_PATH
    try:
        return parse_full_config(tomllib.loads(path.read_text(encoding="utf-8-sig"))).gateway.metrics
    except OSError as exc:
        raise ConfigError([f"cannot read {str(path)!r}: {exc.strerror}; name a file with --config"]) from exc
    except ValueError as exc:
        if isinstance(exc, ConfigError):
            raise
        raise ConfigError([f"{str(path)!r} is not TOML: {exc}"]) from exc
