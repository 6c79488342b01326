"""All measurements of programs, by name: what ``python -m benchmarks program`` runs."""

from collections.abc import Callable, Mapping

from benchmarks.measurement import Measurement
from benchmarks.program.attempts import measure_attempts
from benchmarks.program.overhead import measure_overhead
from benchmarks.program.parity import measure_parity
from benchmarks.program.plan import Plan
from benchmarks.program.throughput import measure_throughput
from benchmarks.program.tokens import measure_tokens

MEASUREMENTS: Mapping[str, Callable[[Plan], Measurement]] = {
    "tokens": measure_tokens,
    "overhead": measure_overhead,
    "throughput": measure_throughput,
    "attempts": measure_attempts,
    "parity": measure_parity,
}
