"""All measurements of the pool, by name: what ``python -m benchmarks pool`` runs."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks.measurement import Measurement
from benchmarks.pool.backends import Database
from benchmarks.pool.ingest import measure_ingest
from benchmarks.pool.losses import measure_kills, measure_restarts
from benchmarks.pool.plan import Plan
from benchmarks.pool.scale import measure_scale
from benchmarks.pool.storage import measure_storage
from benchmarks.result_cache import CacheKey, ResultCache
from upturn.records import JsonValue, Result, record

MEASUREMENTS: Mapping[str, Callable[[Plan, str, Database], Measurement]] = {
    "ingest": measure_ingest,
    "storage": measure_storage,
    "scale": measure_scale,
    "kills": measure_kills,
    "restarts": measure_restarts,
}


@record
class _Measured:
    """A measurement as it is stored."""

    results: tuple[Result, ...]
    details: dict[str, JsonValue]


def measure(
    plan: Plan, folder: Path, parts: Sequence[str], databases: Mapping[str, Database]
) -> dict[str, Measurement]:
    """Returns the measurements by database and part; stores each, and takes those that the folder has."""
    cache = ResultCache(folder, plan.sizes)
    measured: dict[str, Measurement] = {}
    for part in parts:
        for name, database in databases.items():

            def new(part: str = part, name: str = name, database: Database = database) -> _Measured:
                taken = MEASUREMENTS[part](plan, name, database)
                return _Measured(taken.results, dict(taken.details))

            stored = cache.get(CacheKey(part, name, 0), _Measured, new)
            measured[f"{name} {part}"] = Measurement(stored.results, stored.details)
    return measured
