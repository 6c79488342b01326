"""Bytes of a token: in groups with one prompt, beside rows that are stored whole."""

from sqlalchemy import func, select

from benchmarks.comparison import result
from benchmarks.measurement import Measurement
from benchmarks.pool.backends import Database
from benchmarks.pool.ingest import store
from benchmarks.pool.plan import Plan
from benchmarks.pool.workload import groups
from upturn.pool import Pool, schema
from upturn.pool.tokens import pack_rows, serializer
from upturn.records import TokenRow

_KEY_BYTES = 12
"""Of a blob, beside its columns: the numbers of its row in the table and the index, and their headers."""


def measure_storage(plan: Plan, name: str, database: Database) -> Measurement:
    """The bytes in the columns of packed rows and blobs, keys counted twice (table and index)."""
    plan.log(f"{name}: storing {plan.groups:,} groups")
    points = list(groups(plan.groups))
    rows = [point.trajectory.rows for point in points]
    tokens = sum(len(row.token_ids) for of_one in rows for row in of_one)
    json = [serializer(tuple[TokenRow, ...]).to_json(of_one).decode() for of_one in rows]
    packed = [pack_rows(of_one, text) for of_one, text in zip(rows, json, strict=True)]
    whole = sum(len(one.data) + sum(len(blob.data) for blob in one.blobs) for one in packed)
    with Pool.open(database.new_pool()) as pool:
        store(pool, points)
        assert [trajectory.rows for trajectory in pool.trajectories(tenant="default")] == rows
        with pool.engine.connect() as connection:
            blob = schema.token_blobs.c
            keys = 2 * (func.length(blob.digest) + func.length(blob.tenant)) + _KEY_BYTES
            shared = connection.execute(select(func.sum(func.length(blob.data) + keys))).scalar_one()
            own = connection.execute(select(func.sum(func.length(schema.trajectories.c.tokens)))).scalar_one()
    stored = float(shared + own)
    as_json = float(sum(map(len, json)))
    return Measurement(
        (
            result(f"{name} bytes a token", stored / tokens, "bytes"),
            result(f"{name} of rows whole, as JSON", stored / as_json, "share", plan.bar(0.4, is_upper=True)),
            result(f"{name} of rows whole, packed", stored / whole, "share"),
        ),
        {"tokens": tokens, "json_bytes_a_token": as_json / tokens, "packed_bytes_a_token": whole / tokens},
    )
