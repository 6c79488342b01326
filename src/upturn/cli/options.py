"""Options that several commands share, and the configuration file that one of them names."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from upturn.config import Config

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
ConfigPath = Annotated[Path, typer.Option("--config", help="Path of the configuration file.")]
Resume = Annotated[str | None, typer.Option("--resume", help="Resume a run: its folder, or 'latest'.")]
PoolPath = Annotated[Path, typer.Option("--pool", help="Path of the pool.")]
Tenant = Annotated[str, typer.Option("--tenant", help="Tenant whose records to use.")]
AllTenants = Annotated[bool, typer.Option("--all-tenants", help="Use the records of all tenants.")]
Families = Annotated[list[str] | None, typer.Option("--family", help="Only this task family; repeatable.")]

CONFIG_PATH = Path("upturn.toml")
POOL_PATH = Path("upturn.db")


def read_config(path: Path, *algorithms: str) -> "Config":
    """The configuration with the sections of all algorithms; ``algorithms``: import paths of further ones.

    Import paths are resolved in the file's folder from now on, before the current folder.
    """
    from upturn.loop.trainers import load_full_config

    current_folder = sys.path.index("") if "" in sys.path else len(sys.path)
    sys.path.insert(current_folder, str(path.resolve().parent))
    return load_full_config(path, os.environ, *algorithms)
