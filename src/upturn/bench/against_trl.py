"""The update against TRL's: as TRL comes, at TRL's best, where nothing is shared; time, memory, gradient."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from typing import NamedTuple

from upturn.bench.agreement import Agreement
from upturn.bench.comparison import Bar, Pair, alternate, memory_ratio, result, speedup, spread
from upturn.bench.measurement import LIBRARY_SIDE, Bench, Measured, Recorded, record
from upturn.bench.worker import TUNED_ALLOCATOR, Made, Worker
from upturn.errors import MeasurementError
from upturn.records import JsonValue, Result

TRL_SIDE = "upturn.bench.sides.trl:trl_side"
TRL_VERSION = "1.16.0"
INSTALL = "pip install -r requirements-bench.lock"
MICRO_BATCHES = (1, 2, 4, 8)
HOPELESS = 1.5
"""Times the best step that a first step may take for a second one to be worth it."""
DEFAULT_MICRO_BATCH = 8
"""``per_device_train_batch_size`` of TRL as it comes."""
GIBIBYTE = 2**30


def require_trl() -> None:
    """Raises MeasurementError with how to install TRL when it is not there, or another version is."""
    try:
        found = version("trl")
    except PackageNotFoundError:
        found = ""
    if found != TRL_VERSION:
        error = MeasurementError(
            f"this measurement compares with TRL {TRL_VERSION}, and {f'TRL {found}' if found else 'no TRL'} is "
            f"installed; run: .venv/bin/{INSTALL} (or leave it out with --only)"
        )
        error.exit_code = 2
        raise error


class Candidate(NamedTuple):
    """A micro-batch of TRL, and one step with it."""

    micro_batch: int
    made: Made
    worker: Worker


def measure_vocabulary(bench: Bench, vocabulary: int, *, default_bar: float, best_bar: float) -> Measured:
    """One group of long-prompted rollouts: TRL as it comes, and TRL at its best."""
    name = f"trl-{vocabulary}"
    recorded = record(bench, name, bench.sizes.subject, replace(bench.sizes.workload, vocabulary=vocabulary))
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
    recorded = record(bench, "unshared", bench.sizes.subject, settings)
    with ExitStack() as stack:
        candidates = _best_trl(bench, recorded, "unshared", stack)
        theirs = candidates[0].worker
        ours = stack.enter_context(_library(bench, recorded, allocator=TUNED_ALLOCATOR))
        agreement = _agreed(recorded, theirs, ours)
        pairs = _pairs(bench, "unshared", theirs, ours)
    speed = result("speedup_unshared_vs_trl_best", speedup(pairs), "×", bench.bar(1.0))
    return Measured((speed,), recorded.described() | _described(pairs, agreement) | _searched(candidates))


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
    return Measured(results, _described(pairs, agreement) | {"our_peak_gb_checkpointing": _gb(saved.peak_bytes)})


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
    return Measured(results, _described(pairs, agreement) | _searched(candidates))


def _best_trl(bench: Bench, recorded: Recorded, name: str, stack: ExitStack) -> tuple[Candidate, ...]:
    """TRL with each micro-batch, by seconds a step; the first one's process lives on, the others' are over.

    A setting whose first step is far behind is not tried a second time.
    """
    attempts = len(recorded.workload.attempts)
    found: list[Candidate] = []
    for size in [each for each in MICRO_BATCHES if attempts % each == 0]:
        bench.say(f"{name}: TRL's best micro-batch, trying {size}")
        worker = stack.enter_context(_trl(bench, recorded, size, checkpointing=False, allocator=TUNED_ALLOCATOR))
        made = worker.prepared
        if not found or made.seconds < HOPELESS * found[0].made.seconds:
            made = worker.step()
        found = sorted([*found, Candidate(size, made, worker)], key=lambda each: each.made.seconds)
        for loser in found[1:]:
            loser.worker.close()
    return tuple(found)


def _trl(
    bench: Bench, recorded: Recorded, micro_batch: int, *, checkpointing: bool, allocator: dict[str, str]
) -> Worker:
    settings = recorded.settings("trl", gradient_checkpointing=checkpointing, micro_batch=micro_batch)
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
    found = _between(recorded, theirs.prepared, ours.prepared)
    found.check("the library and TRL")
    return found


def _between(recorded: Recorded, theirs: Made, ours: Made) -> Agreement:
    against = replace(recorded, loss=theirs.number("loss"), gradient=recorded.gradient_of("trl"))
    return against.agreement("library", ours)


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
        "trl_peak_gb": _gb(max(pair.theirs.peak_bytes for pair in pairs)),
        "our_peak_gb": _gb(max(pair.ours.peak_bytes for pair in pairs)),
        "loss_gap": agreement.loss,
        "gradient_gap": agreement.gradient,
    }


def _searched(candidates: Sequence[Candidate]) -> dict[str, JsonValue]:
    ascending = sorted(candidates, key=lambda each: each.micro_batch)
    return {
        "trl_micro_batch": candidates[0].micro_batch,
        "tried_seconds": {str(each.micro_batch): round(each.made.seconds, 3) for each in ascending},
        "tried_peak_gb": {str(each.micro_batch): _gb(each.made.peak_bytes) for each in ascending},
    }


def _gb(size: float) -> float:
    return round(size / GIBIBYTE, 3)
