from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Column, Engine, Float, MetaData, Table, Text, create_engine, insert

from upturn.pool import ALL_TENANTS
from upturn.pool.access import Spending, spending

CALLS = Table(
    "calls",
    MetaData(),
    Column("tenant", Text),
    Column("key", Text),
    Column("cost_usd", Float),
    Column("recorded_at", Float),
)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = create_engine(f"sqlite:///{tmp_path / 'calls.db'}")
    CALLS.metadata.create_all(engine)
    rows = [
        ("a", "k1", 0.25, 50.0),  # before the month
        ("a", "k1", 0.5, 100.0),  # the month's first moment
        ("a", "k1", 1.0, 199.0),
        ("a", "k1", 2.0, 200.0),  # the day's first moment
        ("a", "k1", None, 210.0),  # no price
        ("a", "", 4.0, 220.0),  # no key
        ("b", "k2", 8.0, 150.0),
    ]
    names = ("tenant", "key", "cost_usd", "recorded_at")
    with engine.begin() as connection:
        connection.execute(insert(CALLS), [dict(zip(names, row, strict=True)) for row in rows])
    yield engine
    engine.dispose()


def test_costs_are_summed_by_tenant_and_key(engine: Engine) -> None:
    spent = spending(engine, CALLS, day_start=200.0, month_start=100.0, tenant=ALL_TENANTS)
    assert spent == [Spending("a", "", 4.0, 4.0), Spending("a", "k1", 2.0, 3.5), Spending("b", "k2", 0.0, 8.0)]


def test_a_tenant_sees_its_own_costs(engine: Engine) -> None:
    spent = spending(engine, CALLS, day_start=200.0, month_start=100.0, tenant="b")
    assert spent == [Spending("b", "k2", 0.0, 8.0)]
