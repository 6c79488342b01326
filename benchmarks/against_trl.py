"""The update against TRL's: as TRL comes, at TRL's best, where nothing is shared; time, memory, gradient."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace

from benchmarks.agreement import Agreement
from benchmarks.comparison import Bar, Pair, alternate, memory_ratio, result, speedup, spread
from benchmarks.measurement import LIBRARY_SIDE, Bench, Measured, Recorded, record
from benchmarks.trl_baseline import DEFAULT_MICRO_BATCH, Candidate, described_search, gigabytes, search
from benchmarks.worker import TUNED_ALLOCATOR, Worker
from upturn.records import JsonValue, Result

TRL_SIDE = "benchmarks.implementations.trl_update:trl_side"
MICRO_BATCHES = (1, 2, 4, 8)


def measure_vocabulary(bench: Bench, vocabulary: int, *, default_bar: float, best_bar: float) -> Measured:
    """One group of long-prompted rollouts: TRL as it comes, and TRL at its best."""
    name = f"trl-{vocabulary}"
    recorded = record(bench, bench.sizes.subject, replace(bench.sizes.workload, vocabulary=vocabulary))
    as_it_comes = _as_it_comes(bench, recorded, name, default_bar)
    at_its_best = _at_its_best(bench, recorded, name, best_bar)
    details = recorded.described() | {
        "as_it_comes": dict(as_it_comes.details),
        "at_its_best": dict(at_its_best.details),
    }
    return Measured((*as_it_comes.results, *at_its_best.results), details)


def measure_unshared(bench: Bench) -> Measured:
    """Two attempts with a short prompt, against TRL at its best: what sharing costs where it gains nothing."""
    settings = replace(
        bench.sizes.workload,
        prompt_tokens=bench.sizes.unshared_prompt,
        attempts=2,
        vocabulary=bench.sizes.vocabularies[0],
    )
    recorded = record(bench, bench.sizes.subject, settings)
    with ExitStack() as stack:
        candidates = _best_trl(bench, recorded, "unshared", stack)
        theirs = candidates[0].worker
        ours = stack.enter_context(_library(bench, recorded, allocator=TUNED_ALLOCATOR))
        agreement = _agreed(recorded, theirs, ours)
        pairs = _pairs(bench, "unshared", theirs, ours)
    speed = result("speedup_unshared_vs_trl_best", speedup(pairs), "×", bench.bar(1.0))
    return Measured((speed,), recorded.described() | _described(pairs, agreement) | described_search(candidates))


def _as_it_comes(bench: Bench, recorded: Recorded, name: str, bar: float) -> Measured:
    """Checkpointing on, batch 8, the allocator as the system has it. Memory: with checkpointing on both sides."""
    vocabulary = recorded.task.subject.vocabulary
    micro_batch = min(DEFAULT_MICRO_BATCH, len(recorded.workload.attempts))
    with ExitStack() as stack:
        bench.say(f"{name}: TRL as it comes")
        theirs = stack.enter_context(_trl(bench, recorded, micro_batch, checkpointing=True, allocator={}))
        ours = stack.enter_context(_library(bench, recorded, allocator={}))
        agreement = _agreed(recorded, theirs, ours)
        pairs = _pairs(bench, name, theirs, ours)
    with _library(bench, recorded, allocator={}, gradient_checkpointing=True) as saving:
        saved = saving.step()
    memory = spread([saved.peak_bytes / pair.theirs.peak_bytes for pair in pairs])
    results = (
        result(f"speedup_vs_trl_default_{vocabulary}", speedup(pairs), "×", bench.bar(bar)),
        _gap(f"gradient_gap_vs_trl_{vocabulary}", agreement.gradient, bench),
        _gap(f"gradient_gap_vs_dense_{vocabulary}", recorded.agreement("library", ours.prepared).gradient, bench),
        result(f"memory_checkpointing_vs_trl_{vocabulary}", memory, "share", _memory_bar(bench, vocabulary)),
    )
    return Measured(
        results, _described(pairs, agreement) | {"our_peak_gb_checkpointing": gigabytes(saved.peak_bytes)}
    )


def _at_its_best(bench: Bench, recorded: Recorded, name: str, bar: float) -> Measured:
    """Checkpointing off, best micro-batch, allocator tuned; ours with the same allocator."""
    vocabulary = recorded.task.subject.vocabulary
    with ExitStack() as stack:
        candidates = _best_trl(bench, recorded, name, stack)
        theirs = candidates[0].worker
        ours = stack.enter_context(_library(bench, recorded, allocator=TUNED_ALLOCATOR))
        agreement = _agreed(recorded, theirs, ours)
        pairs = _pairs(bench, name, theirs, ours)
    whole = max(candidates, key=lambda each: each.micro_batch).made.peak_bytes
    memory = spread([pair.ours.peak_bytes / whole for pair in pairs])
    results = (
        result(f"speedup_vs_trl_best_{vocabulary}", speedup(pairs), "×", bench.bar(bar)),
        result(f"memory_vs_trl_{vocabulary}", memory, "share", _memory_bar(bench, vocabulary)),
        result(f"memory_vs_trl_best_{vocabulary}", memory_ratio(pairs), "share"),
    )
    return Measured(results, _described(pairs, agreement) | described_search(candidates))


def _best_trl(bench: Bench, recorded: Recorded, name: str, stack: ExitStack) -> list[Candidate]:
    """TRL with each micro-batch, by seconds a step."""
    attempts = len(recorded.workload.attempts)
    return search(
        lambda size: _trl(bench, recorded, size, checkpointing=False, allocator=TUNED_ALLOCATOR),
        [each for each in MICRO_BATCHES if attempts % each == 0],
        stack,
        on_try=lambda size: bench.say(f"{name}: TRL's best micro-batch, trying {size}"),
    )


def _trl(
    bench: Bench, recorded: Recorded, micro_batch: int, *, checkpointing: bool, allocator: dict[str, str]
) -> Worker:
    settings = recorded.settings(
        "trl", gradient_checkpointing=checkpointing, micro_batch=micro_batch, precision="float32"
    )
    return Worker(TRL_SIDE, settings, bench.threads, allocator)


def _library(
    bench: Bench, recorded: Recorded, *, allocator: dict[str, str], gradient_checkpointing: bool = False
) -> Worker:
    options: dict[str, JsonValue] = {"gradient_checkpointing": True} if gradient_checkpointing else {}
    return Worker(LIBRARY_SIDE, recorded.settings("library", optimiser=options), bench.threads, allocator)


def _agreed(recorded: Recorded, theirs: Worker, ours: Worker) -> Agreement:
    """How far the library is from TRL. Raises MeasurementError when two of library, TRL and dense path differ."""
    recorded.agreement("trl", theirs.prepared).check("TRL and the dense path")
    recorded.agreement("library", ours.prepared).check("the library and the dense path")
    found = recorded.between("trl", theirs.prepared).agreement("library", ours.prepared)
    found.check("the library and TRL")
    return found


def _pairs(bench: Bench, name: str, theirs: Worker, ours: Worker) -> tuple[Pair, ...]:
    bench.say(f"{name}: {bench.repetitions} alternating steps of each side")
    return alternate(theirs.step, ours.step, bench.repetitions)


def _memory_bar(bench: Bench, vocabulary: int) -> Bar | None:
    """Only the large vocabulary has one."""
    return bench.bar(0.5, is_upper=True) if vocabulary == bench.sizes.vocabularies[1] else None


def _gap(name: str, value: float, bench: Bench) -> Result:
    return result(name, value, "relative", bench.bar(1e-4, is_upper=True))


def _described(pairs: Sequence[Pair], agreement: Agreement) -> dict[str, JsonValue]:
    return {
        "trl_seconds": [round(pair.theirs.seconds, 3) for pair in pairs],
        "our_seconds": [round(pair.ours.seconds, 3) for pair in pairs],
        "trl_peak_gb": gigabytes(max(pair.theirs.peak_bytes for pair in pairs)),
        "our_peak_gb": gigabytes(max(pair.ours.peak_bytes for pair in pairs)),
        "loss_gap": agreement.loss,
        "gradient_gap": agreement.gradient,
    }
