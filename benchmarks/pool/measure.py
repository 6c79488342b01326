"""All measurements of the pool, by name: what ``python -m benchmarks pool`` runs."""

from collections.abc import Callable, Mapping

from benchmarks.measurement import Measurement
from benchmarks.pool.backends import NewPool
from benchmarks.pool.ingest import measure_ingest
from benchmarks.pool.plan import Plan
from benchmarks.pool.scale import measure_scale
from benchmarks.pool.storage import measure_storage

MEASUREMENTS: Mapping[str, Callable[[Plan, str, NewPool], Measurement]] = {
    "ingest": measure_ingest,
    "storage": measure_storage,
    "scale": measure_scale,
}
