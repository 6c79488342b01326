"""The update of half a billion parameters in bfloat16 on a GPU, compared with TRL's default settings."""

from collections.abc import Sequence
from contextlib import ExitStack

from benchmarks.against_trl import TRL
from benchmarks.agreement import BFLOAT16_TOLERANCE, Agreement
from benchmarks.comparison import Pair, alternate, memory_ratio, result, speedup, spread
from benchmarks.library_update import UTILISATION
from benchmarks.machine import NO_DEVICE, find_device, nameplate_rate
from benchmarks.measurement import LIBRARY, Bench, Measurement, RecordedRollouts, record_rollouts
from benchmarks.trl_baseline import DEFAULT_MICRO_BATCH, gigabytes, require_trl
from benchmarks.worker import Worker
from benchmarks.workloads import update_flops
from upturn.records import JsonValue, Result

PRECISION = "bfloat16"
"""Of both implementations, by autocast: weights, gradients and optimiser are in float32."""


def measure_gpu(bench: Bench) -> Measurement:
    """TRL and the library on the same GPU, in turn; the dense path there in float32.

    Raises MeasurementError without TRL, and when two of library, TRL and dense path differ by more than rounding.
    """
    device = find_device()
    if device is None:
        return Measurement((Result("gpu_speedup_vs_trl_default", NO_DEVICE),))
    require_trl()
    recorded = record_rollouts(bench, bench.sizes.gpu_model, bench.sizes.gpu_workload, device=device)
    micro_batch = min(DEFAULT_MICRO_BATCH, len(recorded.workload.rollouts))
    trl_settings = recorded.settings(
        "trl", gradient_checkpointing=True, micro_batch=micro_batch, precision=PRECISION
    )
    library_settings = recorded.settings("library", optimiser={"precision": PRECISION})
    checkpointing_settings = recorded.settings(
        "checkpointing", optimiser={"precision": PRECISION, "gradient_checkpointing": "full"}
    )
    with ExitStack() as stack:
        bench.log("gpu: TRL with its default settings")
        trl = stack.enter_context(Worker(TRL, trl_settings, bench.threads))
        bench.log("gpu: the library")
        library = stack.enter_context(Worker(UTILISATION, library_settings, bench.threads))
        agreements = _check_agreements(recorded, trl, library)
        bench.log(f"gpu: {bench.repetitions} alternating pairs of steps, products of large matrices in between")
        pairs = alternate(trl.step, library.step, bench.repetitions)
    bench.log(f"gpu: {bench.repetitions} steps of the library with gradient checkpointing, as TRL")
    with Worker(LIBRARY, checkpointing_settings, bench.threads) as checkpointing:
        less = [Pair(pair.baseline, checkpointing.step()) for pair in pairs]
    name = str(library.prepared.values["device_name"])
    utilisation = _measure_utilisation(recorded, pairs, name)
    results = (
        result("gpu_speedup_vs_trl_default", speedup(pairs), "×", bench.bar(3.0)),
        result("gpu_memory_vs_trl_default", memory_ratio(pairs), "share"),
        result("gpu_speedup_checkpointing", speedup(less), "×"),
        result("gpu_memory_checkpointing", memory_ratio(less), "share", bench.bar(0.5, is_upper=True)),
        result("gpu_gradient_distance_vs_trl", agreements["library_and_trl"].whole, "relative"),
        result("gpu_mean_logprob_gap", library.prepared.number("mean_logprob_gap"), "nats"),
        *utilisation.results,
    )
    details: dict[str, JsonValue] = {
        "device": name,
        "precision": f"{PRECISION} by autocast, weights in float32, on both sides",
        "gradient_distances": {names: agreement.whole for names, agreement in agreements.items()},
        "gradient_distance_allowed": BFLOAT16_TOLERANCE,
        "trl_micro_batch": micro_batch,
        "trl_seconds": [round(pair.baseline.seconds, 4) for pair in pairs],
        "our_seconds": [round(pair.candidate.seconds, 4) for pair in pairs],
        "trl_peak_gb": gigabytes(max(pair.baseline.peak_bytes for pair in pairs)),
        "our_peak_gb": gigabytes(max(pair.candidate.peak_bytes for pair in pairs)),
        "our_seconds_checkpointing": [round(pair.candidate.seconds, 4) for pair in less],
        "our_peak_gb_checkpointing": gigabytes(max(pair.candidate.peak_bytes for pair in less)),
        "our_physical_tokens": pairs[0].candidate.number("physical_tokens"),
        "our_attention": library.prepared.values.get("attention"),
        "our_fallbacks": sum(pair.candidate.number("fallbacks") for pair in pairs),
    }
    return Measurement(results, recorded.describe() | details | dict(utilisation.details))


def _check_agreements(recorded: RecordedRollouts, trl: Worker, library: Worker) -> dict[str, Agreement]:
    """Agreements by pair. Raises MeasurementError for the first that is more than rounding."""
    agreements = {
        "trl_and_dense": recorded.agreement("trl", trl.prepared),
        "library_and_dense": recorded.agreement("library", library.prepared),
        "library_and_trl": recorded.relative_to("trl", trl.prepared).agreement("library", library.prepared),
    }
    for names, agreement in agreements.items():
        agreement.check_bfloat16(names.replace("_", " "))
    return agreements


def _measure_utilisation(recorded: RecordedRollouts, pairs: Sequence[Pair], device_name: str) -> Measurement:
    """Useful operations per second of the library, as shares of the measured and of the maker's rate."""
    count = recorded.count_tree()
    flops = update_flops(count, recorded.task.model)
    rates = [flops / pair.candidate.seconds for pair in pairs]
    peaks = [pair.candidate.number("matrix_rate") for pair in pairs]
    nameplate = nameplate_rate(device_name)
    shares = spread([rate / peak for rate, peak in zip(rates, peaks, strict=True)])
    results = [result("gpu_utilisation", shares, "share")]
    if nameplate is not None:
        share = spread([rate / nameplate for rate in rates])
        results.append(result("gpu_utilisation_of_nameplate", share, "share"))
    return Measurement(
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
