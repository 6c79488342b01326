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
from benchmarks.measurement import Bench, Measurement, check_names, combine
from benchmarks.trl_baseline import require_trl
from upturn.records import JsonValue, Result


class Case(NamedTuple):
    """One measurement: a few rows of the table."""

    measure: Callable[[Bench], Measurement]
    needs_trl: bool = False


CASES: Mapping[str, Case] = {
    "dense": Case(measure_dense),
    "trl-small": Case(
        lambda bench: measure_vocabulary(bench, bench.sizes.vocabularies[0], default_bar=5.0, best_bar=3.0),
        needs_trl=True,
    ),
    "trl-large": Case(
        lambda bench: measure_vocabulary(bench, bench.sizes.vocabularies[1], default_bar=8.0, best_bar=5.0),
        needs_trl=True,
    ),
    "unshared": Case(measure_unshared, needs_trl=True),
    "iteration": Case(measure_iteration, needs_trl=True),
    "bfloat16": Case(measure_bfloat16),
    "utilisation": Case(measure_utilisation),
    "groups": Case(measure_groups),
    "gpu": Case(measure_gpu),
}
"""In the order in which they run. ``trl-small`` and ``trl-large`` differ in the vocabulary; ``gpu`` needs TRL too,
but only where there is a GPU, and checks that itself."""


def bench_update(bench: Bench, names: Sequence[str]) -> tuple[list[Result], dict[str, JsonValue]]:
    """Results and details of the named measurements; no names = all. The bench's folder is not used.

    Raises UnknownNameError, and MeasurementError when TRL is missing or two implementations differ.
    """
    check_names(names, CASES)
    cases = {name: case for name, case in CASES.items() if not names or name in names}
    if any(case.needs_trl for case in cases.values()):
        require_trl()
    with tempfile.TemporaryDirectory(prefix="upturn-bench-") as folder:
        bench = replace(bench, folder=Path(folder), recorded={})
        return combine({name: case.measure(bench) for name, case in cases.items()})
