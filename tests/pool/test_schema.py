from pathlib import Path

from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Dialect, Engine, inspect, text
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateTable

import upturn.pool.schema
from upturn.pool import Pool
from upturn.pool.database import writing_engine
from upturn.pool.schema import HEAD, metadata
from upturn.records import Task

POSTGRESQL: Dialect = postgresql.dialect()  # type: ignore[no-untyped-call]  # SQLAlchemy leaves it untyped
MIGRATIONS = Path(upturn.pool.schema.__file__).parent / "migrations"


def upgraded(engine: Engine) -> None:
    """Brings the file from nothing to the head by the revisions alone."""
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def tables_of(engine: Engine) -> set[tuple[str, str]]:
    """Every table and index with the names it is made of."""
    with engine.connect() as connection:
        looking = inspect(connection)
        tables = {
            (name, repr(sorted(str(column) for column in looking.get_columns(name))))
            for name in looking.get_table_names()
        }
        return tables | {(name, repr(looking.get_indexes(name))) for name in looking.get_table_names()}


def test_migrations_and_schema_make_the_same_tables(tmp_path: Path) -> None:
    Pool.open(tmp_path / "pool.db").close()
    created, migrated = writing_engine(tmp_path / "pool.db"), writing_engine(tmp_path / "migrated.db")
    upgraded(migrated)
    assert tables_of(created) == tables_of(migrated)
    for engine in (created, migrated):
        with engine.connect() as connection:
            context = MigrationContext.configure(connection, opts={"compare_type": True})
            assert compare_metadata(context, metadata) == []
            assert context.get_current_revision() == HEAD
        engine.dispose()


def test_migrated_pool_opens_and_takes_records(tmp_path: Path) -> None:
    engine = writing_engine(tmp_path / "migrated.db")
    upgraded(engine)
    engine.dispose()
    with Pool.open(tmp_path / "migrated.db") as pool:
        assert pool.add_tasks(Task("t", "do", "mail", "office")) == 1


def test_head_is_the_last_revision() -> None:
    assert ScriptDirectory(str(MIGRATIONS)).get_current_head() == HEAD


def test_every_table_is_portable() -> None:
    for table in metadata.tables.values():
        statement = str(CreateTable(table).compile(dialect=POSTGRESQL))
        assert "CREATE TABLE" in statement


def test_pool_is_write_ahead_and_flushes_every_commit(tmp_path: Path) -> None:
    engine = writing_engine(tmp_path / "pool.db")
    with engine.connect() as connection:
        assert connection.execute(text("PRAGMA journal_mode")).scalar() == "wal"
        assert connection.execute(text("PRAGMA synchronous")).scalar() == 2
    engine.dispose()
