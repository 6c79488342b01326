from pathlib import Path

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Dialect, Engine, inspect, text
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateTable

from tests.pool.migration import MIGRATIONS, upgrade
from upturn.pool import Pool
from upturn.pool.database import writing_engine
from upturn.pool.row import digest
from upturn.pool.schema import HEAD, metadata
from upturn.records import Task

POSTGRESQL: Dialect = postgresql.dialect()  # type: ignore[no-untyped-call]  # SQLAlchemy leaves it untyped


def tables_of(engine: Engine) -> set[tuple[str, str]]:
    """Returns every table and index with its columns."""
    with engine.connect() as connection:
        inspector = inspect(connection)
        tables = {
            (name, repr(sorted(str(column) for column in inspector.get_columns(name))))
            for name in inspector.get_table_names()
        }
        return tables | {(name, repr(inspector.get_indexes(name))) for name in inspector.get_table_names()}


def test_migrations_and_schema_create_the_same_tables(tmp_path: Path) -> None:
    Pool.open(tmp_path / "pool.db").close()
    created, migrated = writing_engine(tmp_path / "pool.db"), writing_engine(tmp_path / "migrated.db")
    upgrade(migrated)
    assert tables_of(created) == tables_of(migrated)
    for engine in (created, migrated):
        with engine.connect() as connection:
            context = MigrationContext.configure(connection, opts={"compare_type": True})
            assert compare_metadata(context, metadata) == []
            assert context.get_current_revision() == HEAD
        engine.dispose()


def test_migrated_pool_stores_records(tmp_path: Path) -> None:
    engine = writing_engine(tmp_path / "migrated.db")
    upgrade(engine)
    engine.dispose()
    with Pool.open(tmp_path / "migrated.db") as pool:
        assert pool.append(Task("t", "do", "mail", "office")) == 1


OLD_DECISION = (
    '{"id":"%s","task_id":"t","family":"mail","tenant":"default","policy":"uniform","policy_snapshot":"abc",'
    '"alternatives":[{"agent_version":"%s","probability":0.1,"estimate":null,"excluded_by":""}],'
    '"chosen":"%s","propensity":0.1,"reason":"größer","episode":null,"is_sticky":false,"release":null,"arm":null}'
)
"""A decision as it was stored before it had an agent."""


def test_decisions_of_the_first_revision_get_their_agent(tmp_path: Path) -> None:
    """The agent is that of the stored version; the id of a version that is not stored is split at the last @."""
    path = tmp_path / "pool.db"
    engine = writing_engine(path)
    upgrade(engine, "0001")
    chosen = {"d1": "nano@home@1", "d2": "rules@2", "d3": "nano@home@1"}
    insert = text(
        "INSERT INTO decisions"
        " (id, tenant, task_id, family, chosen, propensity, fields, digest, sequence, recorded_at)"
        " VALUES (:id, 'default', 't', 'mail', :chosen, 0.1, :fields, :digest, :sequence, 5.0)"
    )
    with engine.begin() as connection:
        for sequence, (name, version) in enumerate(chosen.items(), start=1):
            fields = OLD_DECISION % (name, version, version)
            row = {"id": name, "chosen": version, "fields": fields, "digest": digest(fields), "sequence": sequence}
            connection.execute(insert, row)
        connection.execute(
            text("INSERT INTO agent_versions VALUES ('nano@home@1', 'nano', 'local_model', '{}', '', 4, 5.0)")
        )
    engine.dispose()
    with Pool.open(path) as pool:
        decisions = list(pool.decisions(tenant="default"))
        assert [(decision.agent, decision.chosen) for decision in decisions] == [
            ("nano", "nano@home@1"),
            ("rules", "rules@2"),
            ("nano", "nano@home@1"),
        ]
        assert decisions[0].reason == "größer"
        assert pool.append(*decisions) == 0, "they equal the stored decisions"


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
