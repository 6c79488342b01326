"""The update by itself: share of the machine's arithmetic, bfloat16, cost of a token as the group grows."""

from contextlib import ExitStack
from dataclasses import replace

from benchmarks.comparison import Bar, alternate, result, speedup, spread
from benchmarks.machine import has_bfloat16
from benchmarks.measurement import LIBRARY_SIDE, Bench, Measured, record
from benchmarks.worker import TUNED_ALLOCATOR, Worker
from benchmarks.workloads import Subject, count_tree, training_rows, update_flops
from upturn.records import JsonValue, Result

CURVE_SIDE = "benchmarks.implementations.copying:curve_side"
UTILISATION_SIDE = "benchmarks.implementations.library_update:utilisation_side"
NO_BFLOAT16 = "not measured: this processor has neither avx512_bf16 nor amx_bf16"


def measure_dense(bench: Bench) -> Measured:
    """The library's gradient against the dense path's."""
    recorded = record(bench, bench.sizes.subject, bench.sizes.workload)
    with Worker(LIBRARY_SIDE, recorded.settings("library", optimiser={}), bench.threads) as ours:
        agreement = recorded.agreement("library", ours.prepared)
    agreement.check("the library and the dense path")
    bar = bench.bar(1e-4, is_upper=True)
    results = (
        result("gradient_gap_vs_dense", agreement.gradient, "relative", bar),
        result("logprob_gap_vs_dense", ours.prepared.number("max_logprob_gap"), "nats"),
    )
    return Measured(results, recorded.described() | {"loss_gap": agreement.loss, "parameter": agreement.parameter})


def measure_utilisation(bench: Bench) -> Measured:
    """Useful operations a second of a wide model's update, as a share of the rate of large float32 products."""
    settings = replace(
        bench.sizes.workload, attempts=bench.sizes.wide_attempts, vocabulary=bench.sizes.wide.vocabulary
    )
    recorded = record(bench, bench.sizes.wide, settings)
    count = count_tree(training_rows(recorded.workload, recorded.task.load_own_logprobs()))
    flops = update_flops(count, recorded.task.subject)
    bench.say(f"utilisation: {bench.repetitions} steps, products of large matrices in between")
    with Worker(
        UTILISATION_SIDE, recorded.settings("library", optimiser={}), bench.threads, TUNED_ALLOCATOR
    ) as ours:
        recorded.agreement("library", ours.prepared).check("the library and the dense path")
        steps = [ours.step() for _ in range(bench.repetitions)]
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
    return Measured((result("utilisation", share, "share", bench.bar(0.6)),), recorded.described() | details)


def measure_bfloat16(bench: Bench) -> Measured:
    """Autocast against float32, both ours, at two widths; and whether a model learns as fast.

    The bar is for the wide model: the fused CPU attention is no faster in bfloat16, and it is half of a narrow
    model's update.
    """
    if not has_bfloat16():
        return Measured((Result("bfloat16_speedup", NO_BFLOAT16),))
    subjects = (bench.sizes.subject, replace(bench.sizes.wide, vocabulary=bench.sizes.workload.vocabulary))
    results: list[Result] = []
    details: dict[str, JsonValue] = {}
    for subject, bar in zip(subjects, (None, bench.bar(1.5)), strict=True):
        measured = _precisions(bench, subject, bar)
        results += measured.results
        details[f"width_{subject.width}"] = dict(measured.details)
    bench.say("bfloat16: a small model learns to copy, in both precisions")
    details["learning_curves"] = {precision: _curve(bench, precision) for precision in ("float32", "bfloat16")}
    return Measured(tuple(results), details)


def _precisions(bench: Bench, subject: Subject, bar: Bar | None) -> Measured:
    """Of one model: how much faster autocast is, and how far it takes the log-probs away."""
    recorded = record(bench, subject, bench.sizes.workload)
    half: dict[str, JsonValue] = {"precision": "bfloat16"}
    with ExitStack() as stack:
        full, rounded = (
            stack.enter_context(
                Worker(LIBRARY_SIDE, recorded.settings(name, optimiser=options), bench.threads, TUNED_ALLOCATOR)
            )
            for name, options in (("library", {}), ("bfloat16", half))
        )
        recorded.agreement("library", full.prepared).check("the library and the dense path")
        bench.say(f"bfloat16: {bench.repetitions} alternating steps of each precision, width {subject.width}")
        pairs = alternate(full.step, rounded.step, bench.repetitions)
        first = rounded.prepared
    results = (
        result(f"bfloat16_speedup_{subject.width}", speedup(pairs), "×", bar),
        result(f"bfloat16_mean_logprob_gap_{subject.width}", first.number("mean_logprob_gap"), "nats"),
        result(f"bfloat16_max_logprob_gap_{subject.width}", first.number("max_logprob_gap"), "nats"),
    )
    details: dict[str, JsonValue] = {
        "float32_seconds": [round(pair.theirs.seconds, 3) for pair in pairs],
        "bfloat16_seconds": [round(pair.ours.seconds, 3) for pair in pairs],
        "gradient_gap": recorded.agreement("bfloat16", first).gradient,
    }
    return Measured(results, recorded.described() | details)


def _curve(bench: Bench, precision: str) -> JsonValue:
    with Worker(CURVE_SIDE, {"precision": precision, "threads": bench.threads}, bench.threads) as side:
        return side.prepared.values["losses"]


def measure_groups(bench: Bench) -> Measured:
    """Seconds a logical token, as more attempts share the prompt."""
    sizes = bench.sizes.groups
    with ExitStack() as stack:
        workers, tokens = [], []
        for size in sizes:
            settings = replace(bench.sizes.workload, attempts=size)
            recorded = record(bench, bench.sizes.subject, settings)
            worker = Worker(
                LIBRARY_SIDE, recorded.settings("library", optimiser={}), bench.threads, TUNED_ALLOCATOR
            )
            workers.append(stack.enter_context(worker))
            recorded.agreement("library", worker.prepared).check("the library and the dense path")
            tokens.append(recorded.workload.logical_tokens)
        bench.say(f"group: {bench.repetitions} steps of each size in turn")
        rounds = [[worker.step().seconds for worker in workers] for _ in range(bench.repetitions)]
    costs = [[made[place] / count * 1e6 for made in rounds] for place, count in enumerate(tokens)]
    results = [
        result(f"token_cost_group_{size}", spread(found), "µs/token")
        for size, found in zip(sizes, costs, strict=True)
    ]
    falls = spread([first / last for first, last in zip(costs[0], costs[-1], strict=True)])
    results.append(result(f"token_cost_{sizes[0]}_over_{sizes[-1]}", falls, "×", bench.bar(1.0)))
    return Measured(tuple(results), {"logical_tokens": dict(zip(map(str, sizes), tokens, strict=True))})
