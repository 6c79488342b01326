"""All measurements of the update, by name: what ``python -m benchmarks update`` runs."""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from benchmarks.against_trl import measure_unshared, measure_vocabulary
from benchmarks.gpu import measure_gpu
from benchmarks.iteration import measure_iteration
from benchmarks.library_update import measure_bfloat16, measure_dense, measure_groups, measure_utilisation
from benchmarks.measurement import Bench, Measured
from benchmarks.trl_baseline import require_trl
from upturn.errors import UnknownNameError
from upturn.records import JsonValue, Result


class Measurement(NamedTuple):
    """One row, or a few that belong together, of the table."""

    run: Callable[[Bench], Measured]
    needs_trl: bool


MEASUREMENTS: Mapping[str, Measurement] = {
    "dense": Measurement(measure_dense, False),
    "trl-small": Measurement(
        lambda bench: measure_vocabulary(bench, bench.sizes.vocabularies[0], default_bar=5.0, best_bar=3.0),
        True,
    ),
    "trl-large": Measurement(
        lambda bench: measure_vocabulary(bench, bench.sizes.vocabularies[1], default_bar=8.0, best_bar=5.0),
        True,
    ),
    "unshared": Measurement(measure_unshared, True),
    "iteration": Measurement(measure_iteration, True),
    "bfloat16": Measurement(measure_bfloat16, False),
    "utilisation": Measurement(measure_utilisation, False),
    "groups": Measurement(measure_groups, False),
    "gpu": Measurement(measure_gpu, False),
}
"""In the order in which they run. ``trl-small`` and ``trl-large`` differ in the vocabulary; ``gpu`` needs TRL as
well, but only where there is a GPU, and says so itself."""


def chosen(names: Sequence[str]) -> dict[str, Measurement]:
    """The named measurements in order; no names = all. Raises UnknownNameError, or MeasurementError without TRL."""
    unknown = [name for name in names if name not in MEASUREMENTS]
    if unknown:
        raise UnknownNameError(f"unknown measurement {unknown[0]!r}; known: {', '.join(MEASUREMENTS)}")
    found = {name: each for name, each in MEASUREMENTS.items() if not names or name in names}
    if any(each.needs_trl for each in found.values()):
        require_trl()
    return found


def bench_update(bench: Bench, names: Sequence[str]) -> tuple[list[Result], dict[str, JsonValue]]:
    """Results and details of the named measurements; no names = all. The bench's folder is not used.

    Raises UnknownNameError, and MeasurementError when TRL is missing or two sides do not compute the same.
    """
    measurements = chosen(names)
    results: list[Result] = []
    details: dict[str, JsonValue] = {}
    with tempfile.TemporaryDirectory(prefix="upturn-bench-") as folder:
        placed = replace(bench, folder=Path(folder), recorded={})
        for name, measurement in measurements.items():
            measured = measurement.run(placed)
            results += measured.results
            details[name] = dict(measured.details)
    return results, details
