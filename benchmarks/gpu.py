"""The update of half a billion parameters in bfloat16 on a GPU, against TRL as it comes, and against the GPU."""

from collections.abc import Sequence
from contextlib import ExitStack

from benchmarks.against_trl import TRL_SIDE
from benchmarks.agreement import ROUGH_TOLERANCE, Agreement
from benchmarks.comparison import Pair, alternate, memory_ratio, result, speedup, spread
from benchmarks.library_update import UTILISATION_SIDE
from benchmarks.machine import find_device, nameplate_rate
from benchmarks.measurement import Bench, Measured, Recorded, record
from benchmarks.trl_baseline import DEFAULT_MICRO_BATCH, gigabytes, require_trl
from benchmarks.worker import Worker
from benchmarks.workloads import count_tree, training_rows, update_flops
from upturn.records import JsonValue, Result

NO_DEVICE = "not measured: no CUDA device"
PRECISION = "bfloat16"
"""Of both sides, by autocast: weights, gradients and optimiser are in float32."""


def measure_gpu(bench: Bench) -> Measured:
    """Both sides on the same GPU, in turn; the dense path there in float32.

    Raises MeasurementError without TRL, and when two of library, TRL and dense path differ by more than rounding.
    """
    device = find_device()
    if device is None:
        return Measured((Result("gpu_speedup_vs_trl_default", NO_DEVICE),))
    require_trl()
    recorded = record(bench, bench.sizes.gpu, bench.sizes.gpu_workload, device=device)
    micro_batch = min(DEFAULT_MICRO_BATCH, len(recorded.workload.attempts))
    with ExitStack() as stack:
        bench.say("gpu: TRL as it comes")
        theirs = stack.enter_context(_trl(bench, recorded, micro_batch))
        bench.say("gpu: the library")
        ours = stack.enter_context(_library(bench, recorded))
        agreements = _agreements(recorded, theirs, ours)
        bench.say(f"gpu: {bench.repetitions} alternating steps of each side, products of large matrices in between")
        pairs = alternate(theirs.step, ours.step, bench.repetitions)
    name = str(ours.prepared.values["device_name"])
    used = _utilisation(recorded, pairs, name)
    results = (
        result("gpu_speedup_vs_trl_default", speedup(pairs), "×", bench.bar(3.0)),
        result("gpu_memory_vs_trl_default", memory_ratio(pairs), "share"),
        result("gpu_gradient_distance_vs_trl", agreements["library_and_trl"].whole, "relative"),
        result("gpu_mean_logprob_gap", ours.prepared.number("mean_logprob_gap"), "nats"),
        *used.results,
    )
    details: dict[str, JsonValue] = {
        "device": name,
        "precision": f"{PRECISION} by autocast, weights in float32, on both sides",
        "gradient_distances": {between: found.whole for between, found in agreements.items()},
        "gradient_distance_allowed": ROUGH_TOLERANCE,
        "trl_micro_batch": micro_batch,
    }
    return Measured(results, recorded.described() | details | _described(pairs) | dict(used.details))


def _trl(bench: Bench, recorded: Recorded, micro_batch: int) -> Worker:
    settings = recorded.settings("trl", gradient_checkpointing=True, micro_batch=micro_batch, precision=PRECISION)
    return Worker(TRL_SIDE, settings, bench.threads)


def _library(bench: Bench, recorded: Recorded) -> Worker:
    settings = recorded.settings("library", optimiser={"precision": PRECISION})
    return Worker(UTILISATION_SIDE, settings, bench.threads)


def _agreements(recorded: Recorded, theirs: Worker, ours: Worker) -> dict[str, Agreement]:
    """Raises MeasurementError for the first that is more than rounding."""
    found = {
        "trl_and_dense": recorded.agreement("trl", theirs.prepared),
        "library_and_dense": recorded.agreement("library", ours.prepared),
        "library_and_trl": recorded.between("trl", theirs.prepared).agreement("library", ours.prepared),
    }
    for between, agreement in found.items():
        agreement.check_rounded(between.replace("_", " "))
    return found


def _utilisation(recorded: Recorded, pairs: Sequence[Pair], name: str) -> Measured:
    """Useful operations a second of our steps, as shares of what the device does and of what its maker says."""
    count = count_tree(training_rows(recorded.workload, recorded.task.load_own_logprobs()))
    flops = update_flops(count, recorded.task.subject)
    rates = [flops / pair.ours.seconds for pair in pairs]
    peaks = [pair.ours.number("matrix_rate") for pair in pairs]
    nameplate = nameplate_rate(name)
    results = [
        result("gpu_utilisation", spread([rate / peak for rate, peak in zip(rates, peaks, strict=True)]), "share")
    ]
    if nameplate is not None:
        share = spread([rate / nameplate for rate in rates])
        results.append(result("gpu_utilisation_of_nameplate", share, "share"))
    return Measured(
        tuple(results),
        {
            "flops": flops,
            "distinct_tokens": count.tokens,
            "predicting_tokens": count.predictors,
            "update_tflops": [round(rate / 1e12, 1) for rate in rates],
            "matrix_tflops": [round(peak / 1e12, 1) for peak in peaks],
            "nameplate_tflops": None if nameplate is None else nameplate / 1e12,
        },
    )


def _described(pairs: Sequence[Pair]) -> dict[str, JsonValue]:
    return {
        "trl_seconds": [round(pair.theirs.seconds, 4) for pair in pairs],
        "our_seconds": [round(pair.ours.seconds, 4) for pair in pairs],
        "trl_peak_gb": gigabytes(max(pair.theirs.peak_bytes for pair in pairs)),
        "our_peak_gb": gigabytes(max(pair.ours.peak_bytes for pair in pairs)),
        "our_physical_tokens": pairs[0].ours.number("physical_tokens"),
        "our_fallbacks": sum(pair.ours.number("fallbacks") for pair in pairs),
    }
