"""The library's update alone: share of the machine's arithmetic, bfloat16, and cost per token by group size."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from benchmarks.comparison import Bar, alternate, result, speedup, spread
from benchmarks.machine import has_bfloat16
from benchmarks.measurement import LIBRARY, Bench, Measurement, RecordedRollouts, record_rollouts
from benchmarks.worker import TUNED_ALLOCATOR, Worker
from benchmarks.workloads import ModelSpec, update_flops
from upturn.records import JsonValue, Result

COPYING = "benchmarks.implementations.copying:serve_losses"
UTILISATION = "benchmarks.implementations.library_update:serve_utilisation"
NO_BFLOAT16 = "not measured: this processor has neither avx512_bf16 nor amx_bf16"


def measure_dense(bench: Bench) -> Measurement:
    """Distance of the library's gradient from the dense path's."""
    recorded = record_rollouts(bench, bench.sizes.model, bench.sizes.workload)
    with Worker(LIBRARY, recorded.settings("library", optimiser={}), bench.threads) as library:
        agreement = recorded.agreement("library", library.prepared)
    agreement.check("the library and the dense path")
    bar = bench.bar(1e-4, is_upper=True)
    results = (
        result("gradient_gap_vs_dense", agreement.gradient, "relative", bar),
        result("logprob_gap_vs_dense", library.prepared.number("max_logprob_gap"), "nats"),
    )
    details = recorded.describe() | {"loss_gap": agreement.loss, "parameter": agreement.parameter}
    return Measurement(results, details)


def measure_utilisation(bench: Bench) -> Measurement:
    """Useful operations per second of a wide model's update, as a share of the rate of large float32 products."""
    model = bench.sizes.wide_model
    settings = replace(bench.sizes.workload, group_size=bench.sizes.wide_group_size, vocabulary=model.vocabulary)
    recorded = record_rollouts(bench, model, settings)
    count = recorded.count_tree()
    flops = update_flops(count, recorded.task.model)
    bench.log(f"utilisation: {bench.repetitions} steps, products of large matrices in between")
    with _checked_library(bench, recorded, UTILISATION) as library:
        steps = [library.step() for _ in range(bench.repetitions)]
    rates = [flops / step.seconds for step in steps]
    peaks = [step.number("matrix_rate") for step in steps]
    share = spread([rate / peak for rate, peak in zip(rates, peaks, strict=True)])
    details: dict[str, JsonValue] = {
        "flops": flops,
        "distinct_tokens": count.tokens,
        "predicting_tokens": count.predictors,
        "attended_pairs": count.attended,
        "update_gflops": [round(rate / 1e9, 1) for rate in rates],
        "matrix_gflops": [round(peak / 1e9, 1) for peak in peaks],
    }
    utilisation = result("utilisation", share, "share", bench.bar(0.6))
    return Measurement((utilisation,), recorded.describe() | details)


def measure_bfloat16(bench: Bench) -> Measurement:
    """Autocast compared with float32 at two widths, and the learning curves of both.

    The bar is for the wide model: the fused CPU attention is no faster in bfloat16, and it is half of a narrow
    model's update.
    """
    if not has_bfloat16():
        return Measurement((Result("bfloat16_speedup", NO_BFLOAT16),))
    wide = replace(bench.sizes.wide_model, vocabulary=bench.sizes.workload.vocabulary)
    results: list[Result] = []
    details: dict[str, JsonValue] = {}
    for model, bar in ((bench.sizes.model, None), (wide, bench.bar(1.5))):
        measurement = _measure_precisions(bench, model, bar)
        results += measurement.results
        details[f"width_{model.width}"] = dict(measurement.details)
    bench.log("bfloat16: a small model learns to copy, in both precisions")
    curves: dict[str, JsonValue] = {}
    for precision in ("float32", "bfloat16"):
        with Worker(COPYING, {"precision": precision, "threads": bench.threads}, bench.threads) as worker:
            curves[precision] = worker.prepared.values["losses"]
    return Measurement(tuple(results), details | {"learning_curves": curves})


def _measure_precisions(bench: Bench, model: ModelSpec, bar: Bar | None) -> Measurement:
    """Speedup of autocast for one model, and its effect on the log-probs."""
    recorded = record_rollouts(bench, model, bench.sizes.workload)
    with ExitStack() as stack:
        float32 = stack.enter_context(_checked_library(bench, recorded, LIBRARY))
        settings = recorded.settings("bfloat16", optimiser={"precision": "bfloat16"})
        bfloat16 = stack.enter_context(Worker(LIBRARY, settings, bench.threads, TUNED_ALLOCATOR))
        bench.log(f"bfloat16: {bench.repetitions} alternating steps of each precision, width {model.width}")
        pairs = alternate(float32.step, bfloat16.step, bench.repetitions)
    results = (
        result(f"bfloat16_speedup_{model.width}", speedup(pairs), "×", bar),
        result(f"bfloat16_mean_logprob_gap_{model.width}", bfloat16.prepared.number("mean_logprob_gap"), "nats"),
        result(f"bfloat16_max_logprob_gap_{model.width}", bfloat16.prepared.number("max_logprob_gap"), "nats"),
    )
    details: dict[str, JsonValue] = {
        "float32_seconds": [round(pair.baseline.seconds, 3) for pair in pairs],
        "bfloat16_seconds": [round(pair.candidate.seconds, 3) for pair in pairs],
        "gradient_gap": recorded.agreement("bfloat16", bfloat16.prepared).gradient,
    }
    return Measurement(results, recorded.describe() | details)


def measure_groups(bench: Bench) -> Measurement:
    """Time per logical token for growing groups, whose rollouts share the prompt."""
    sizes = bench.sizes.group_sizes
    with ExitStack() as stack:
        workers, tokens = [], []
        for size in sizes:
            settings = replace(bench.sizes.workload, group_size=size)
            recorded = record_rollouts(bench, bench.sizes.model, settings)
            workers.append(stack.enter_context(_checked_library(bench, recorded, LIBRARY)))
            tokens.append(recorded.workload.logical_tokens)
        bench.log(f"group: {bench.repetitions} steps of each size in turn")
        rounds = [[worker.step().seconds for worker in workers] for _ in range(bench.repetitions)]
    costs = [[seconds[index] / count * 1e6 for seconds in rounds] for index, count in enumerate(tokens)]
    results = [
        result(f"token_cost_group_{size}", spread(cost), "µs/token")
        for size, cost in zip(sizes, costs, strict=True)
    ]
    ratio = spread([first / last for first, last in zip(costs[0], costs[-1], strict=True)])
    results.append(result(f"token_cost_{sizes[0]}_over_{sizes[-1]}", ratio, "×", bench.bar(1.0)))
    return Measurement(tuple(results), {"logical_tokens": dict(zip(map(str, sizes), tokens, strict=True))})


@contextmanager
def _checked_library(bench: Bench, recorded: RecordedRollouts, implementation: str) -> Iterator[Worker]:
    """A worker of the library. Raises MeasurementError when its gradient is not the dense path's."""
    settings = recorded.settings("library", optimiser={})
    with Worker(implementation, settings, bench.threads, TUNED_ALLOCATOR) as worker:
        recorded.agreement("library", worker.prepared).check("the library and the dense path")
        yield worker
