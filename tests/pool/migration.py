"""Running the pool's migrations alone, in the tests."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Engine

import upturn.pool.schema

MIGRATIONS = Path(upturn.pool.schema.__file__).parent / "migrations"


def upgrade(engine: Engine, revision: str = "head") -> None:
    """Creates or upgrades the tables to a revision."""
    with engine.begin() as connection:
        config = _config()
        config.attributes["connection"] = connection
        command.upgrade(config, revision)


def downgrade(engine: Engine, revision: str) -> None:
    """Sets the tables back to an older revision."""
    with engine.begin() as connection:
        config = _config()
        config.attributes["connection"] = connection
        command.downgrade(config, revision)


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    return config
