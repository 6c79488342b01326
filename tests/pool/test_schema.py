from pathlib import Path

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import text
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateTable

import upturn.pool.schema
from upturn.pool import Pool
from upturn.pool.database import writing_engine
from upturn.pool.schema import HEAD, metadata

MIGRATIONS = Path(upturn.pool.schema.__file__).parent / "migrations"


def test_migrations_make_exactly_the_tables_of_the_schema(tmp_path: Path) -> None:
    Pool.open(tmp_path / "pool.db").close()
    engine = writing_engine(tmp_path / "pool.db")
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []
        assert context.get_current_revision() == HEAD
    engine.dispose()


def test_head_is_the_last_revision() -> None:
    assert ScriptDirectory(str(MIGRATIONS)).get_current_head() == HEAD


def test_every_table_is_portable() -> None:
    for table in metadata.tables.values():
        statement = str(CreateTable(table).compile(dialect=postgresql.dialect()))
        assert "CREATE TABLE" in statement


def test_pool_is_write_ahead_and_flushes_every_commit(tmp_path: Path) -> None:
    engine = writing_engine(tmp_path / "pool.db")
    with engine.connect() as connection:
        assert connection.execute(text("PRAGMA journal_mode")).scalar() == "wal"
        assert connection.execute(text("PRAGMA synchronous")).scalar() == 2
    engine.dispose()
