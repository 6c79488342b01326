"""The update compared with TRL's, with TRL's default and best settings: time, memory and gradient."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import NamedTuple

from benchmarks.agreement import Agreement
from benchmarks.comparison import Bar, Pair, alternate, memory_ratio, result, speedup, spread
from benchmarks.measurement import LIBRARY, Bench, Measurement, RecordedRollouts, record_rollouts
from benchmarks.trl_baseline import DEFAULT_MICRO_BATCH, Candidate, describe_search, gigabytes, search_micro_batch
from benchmarks.worker import TUNED_ALLOCATOR, Worker
from upturn.records import JsonValue, Result

TRL = "benchmarks.implementations.trl_update:serve_update"
MICRO_BATCHES = (1, 2, 4, 8)


class _BestComparison(NamedTuple):
    candidates: list[Candidate]
    agreement: Agreement
    pairs: tuple[Pair, ...]


def measure_vocabulary(bench: Bench, vocabulary: int, *, default_bar: float, best_bar: float) -> Measurement:
    """One group of rollouts with a long prompt, compared with TRL's default and best settings."""
    name = f"trl-{vocabulary}"
    recorded = record_rollouts(bench, bench.sizes.model, replace(bench.sizes.workload, vocabulary=vocabulary))
    default = _measure_default(bench, recorded, name, default_bar)
    best = _measure_best(bench, recorded, name, best_bar)
    details = recorded.describe() | {"as_it_comes": dict(default.details), "at_its_best": dict(best.details)}
    return Measurement((*default.results, *best.results), details)


def measure_unshared(bench: Bench) -> Measurement:
    """Two rollouts with a short prompt, compared with TRL's best settings: the cost of sharing without a gain."""
    settings = replace(
        bench.sizes.workload,
        prompt_tokens=bench.sizes.unshared_prompt,
        group_size=2,
        vocabulary=bench.sizes.vocabularies[0],
    )
    recorded = record_rollouts(bench, bench.sizes.model, settings)
    candidates, agreement, pairs = _compare_with_best(bench, recorded, "unshared")
    speed = result("speedup_unshared_vs_trl_best", speedup(pairs), "×", bench.bar(1.0))
    details = recorded.describe() | _describe(pairs, agreement) | describe_search(candidates)
    return Measurement((speed,), details)


def _measure_default(bench: Bench, recorded: RecordedRollouts, name: str, bar: float) -> Measurement:
    """TRL with checkpointing and batch 8, the system's allocator. Memory: both with checkpointing."""
    vocabulary = recorded.task.model.vocabulary
    micro_batch = min(DEFAULT_MICRO_BATCH, len(recorded.workload.rollouts))
    with ExitStack() as stack:
        bench.log(f"{name}: TRL with its default settings")
        trl = stack.enter_context(_start_trl(bench, recorded, micro_batch, checkpointing=True, allocator={}))
        library = stack.enter_context(_start_library(bench, recorded, allocator={}))
        agreement = _check_agreement(recorded, trl, library)
        pairs = _pair(bench, name, trl, library)
    with _start_library(bench, recorded, allocator={}, checkpointing=True) as checkpointing:
        peak_bytes = checkpointing.step().peak_bytes
    memory = spread([peak_bytes / pair.baseline.peak_bytes for pair in pairs])
    dense_gap = recorded.agreement("library", library.prepared).gradient
    results = (
        result(f"speedup_vs_trl_default_{vocabulary}", speedup(pairs), "×", bench.bar(bar)),
        _gap_result(f"gradient_gap_vs_trl_{vocabulary}", agreement.gradient, bench),
        _gap_result(f"gradient_gap_vs_dense_{vocabulary}", dense_gap, bench),
        result(f"memory_checkpointing_vs_trl_{vocabulary}", memory, "share", _memory_bar(bench, vocabulary)),
    )
    details = _describe(pairs, agreement) | {"our_peak_gb_checkpointing": gigabytes(peak_bytes)}
    return Measurement(results, details)


def _measure_best(bench: Bench, recorded: RecordedRollouts, name: str, bar: float) -> Measurement:
    """TRL's best settings. Memory: relative to TRL's largest and to its best micro-batch."""
    vocabulary = recorded.task.model.vocabulary
    candidates, agreement, pairs = _compare_with_best(bench, recorded, name)
    largest = max(candidates, key=lambda candidate: candidate.micro_batch).step.peak_bytes
    memory = spread([pair.candidate.peak_bytes / largest for pair in pairs])
    results = (
        result(f"speedup_vs_trl_best_{vocabulary}", speedup(pairs), "×", bench.bar(bar)),
        result(f"memory_vs_trl_{vocabulary}", memory, "share", _memory_bar(bench, vocabulary)),
        result(f"memory_vs_trl_best_{vocabulary}", memory_ratio(pairs), "share"),
    )
    return Measurement(results, _describe(pairs, agreement) | describe_search(candidates))


def _compare_with_best(bench: Bench, recorded: RecordedRollouts, name: str) -> _BestComparison:
    """TRL's best micro-batch without checkpointing, a tuned allocator for both."""
    group_size = len(recorded.workload.rollouts)
    with ExitStack() as stack:
        candidates = search_micro_batch(
            lambda size: _start_trl(bench, recorded, size, checkpointing=False, allocator=TUNED_ALLOCATOR),
            [size for size in MICRO_BATCHES if group_size % size == 0],
            stack,
            on_try=lambda size: bench.log(f"{name}: search for TRL's best micro-batch, {size}"),
        )
        library = stack.enter_context(_start_library(bench, recorded, allocator=TUNED_ALLOCATOR))
        agreement = _check_agreement(recorded, candidates[0].worker, library)
        return _BestComparison(candidates, agreement, _pair(bench, name, candidates[0].worker, library))


def _start_trl(
    bench: Bench, recorded: RecordedRollouts, micro_batch: int, *, checkpointing: bool, allocator: Mapping[str, str]
) -> Worker:
    settings = recorded.settings(
        "trl", gradient_checkpointing=checkpointing, micro_batch=micro_batch, precision="float32"
    )
    return Worker(TRL, settings, bench.threads, allocator)


def _start_library(
    bench: Bench, recorded: RecordedRollouts, *, allocator: Mapping[str, str], checkpointing: bool = False
) -> Worker:
    options: dict[str, JsonValue] = {"gradient_checkpointing": "full"} if checkpointing else {}
    return Worker(LIBRARY, recorded.settings("library", optimiser=options), bench.threads, allocator)


def _check_agreement(recorded: RecordedRollouts, trl: Worker, library: Worker) -> Agreement:
    """Distance of the library from TRL. Raises MeasurementError when two of library, TRL and dense path differ."""
    recorded.agreement("trl", trl.prepared).check("TRL and the dense path")
    recorded.agreement("library", library.prepared).check("the library and the dense path")
    agreement = recorded.relative_to("trl", trl.prepared).agreement("library", library.prepared)
    agreement.check("the library and TRL")
    return agreement


def _pair(bench: Bench, name: str, trl: Worker, library: Worker) -> tuple[Pair, ...]:
    bench.log(f"{name}: {bench.repetitions} alternating pairs of steps")
    return alternate(trl.step, library.step, bench.repetitions)


def _memory_bar(bench: Bench, vocabulary: int) -> Bar | None:
    """Only the large vocabulary has one."""
    return bench.bar(0.5, is_upper=True) if vocabulary == bench.sizes.vocabularies[1] else None


def _gap_result(name: str, value: float, bench: Bench) -> Result:
    return result(name, value, "relative", bench.bar(1e-4, is_upper=True))


def _describe(pairs: Sequence[Pair], agreement: Agreement) -> dict[str, JsonValue]:
    return {
        "trl_seconds": [round(pair.baseline.seconds, 3) for pair in pairs],
        "our_seconds": [round(pair.candidate.seconds, 3) for pair in pairs],
        "trl_peak_gb": gigabytes(max(pair.baseline.peak_bytes for pair in pairs)),
        "our_peak_gb": gigabytes(max(pair.candidate.peak_bytes for pair in pairs)),
        "loss_gap": agreement.loss,
        "gradient_gap": agreement.gradient,
    }
