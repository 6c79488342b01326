"""All measurements of multi-turn sampling, by name: what ``python -m benchmarks rollout`` runs.

Sixty-four environments run at once: eight tasks with eight rollouts each, which share their task's prompt. Each
implementation is a process with the same threads and the same tuned allocator. Before anything is timed, every
implementation's log-probs are compared with a dense forward pass over the whole history, and its tokens are tested
to be drawn from the model. Seconds cover all turns, and the library's copying of the weights.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import Literal, TypeAlias

from benchmarks.async_rollouts import measure_async_rollouts
from benchmarks.comparison import Bar, alternate, memory_ratio, result, speedup
from benchmarks.machine import NO_DEVICE, find_device
from benchmarks.measurement import QWEN2_HALF_BILLION, Bench, Measurement, check_names, combine
from benchmarks.worker import TUNED_ALLOCATOR, Worker
from benchmarks.workloads import Conversations, ModelSpec
from upturn.errors import MeasurementError
from upturn.records import JsonValue, Result

ENGINE = "benchmarks.implementations.engine:serve_sampling"
GENERATE = "benchmarks.implementations.generate:serve_sampling"
MAX_LOGPROB_GAP = 1e-4
"""Distance of log-probs from a dense pass in float32, in nats; observed are a few 1e-6."""
MAX_MEAN_GAP = 0.2
"""Mean distance in bfloat16, whose rounding alone moves logits as large as here by up to 0.06."""
MAX_Z_SCORE = 5.0
"""Distance of sampled tokens from the model's expectation: exceeded by chance once in 1.7 million samples."""

Baseline: TypeAlias = Literal["whole", "kept", "shared"]
"""``generate`` on the whole history each turn; with its cache kept; and with prompts computed once per task."""
_CACHES: Mapping[Baseline, tuple[str, ...]] = {
    "whole": ("whole",),
    "kept": ("growing", "allocated"),
    "shared": ("shared",),
}
"""Kinds of cache of each baseline; of several, the faster in one step is measured."""
SMALL = ModelSpec(width=128, layers=4, vocabulary=530)
WIDE = ModelSpec(width=256, layers=6, vocabulary=4_096)
ASYNC_ROLLOUTS = "ahead"
"""Name of the measurement in ``benchmarks.async_rollouts``."""
VARIED = (8, 32)
"""Tokens of an action where agents end their actions themselves."""


@dataclass(frozen=True, slots=True)
class Case:
    """One workload, and the baselines on it."""

    model: ModelSpec
    conversations: Conversations
    bars: Mapping[Baseline, float | None]
    """By baseline, the bar of the speedup; None = only reported."""
    is_default: bool = True
    """False = runs only when named, because it takes long, or is in ``gpu``."""
    is_on_gpu: bool = False
    """True = on a CUDA device in bfloat16; False = on the CPU in float32."""


_SHORT = Conversations(60, vocabulary=SMALL.vocabulary)
_LONG = Conversations(1_000, vocabulary=SMALL.vocabulary)
_LONG_WIDE = Conversations(1_000, vocabulary=WIDE.vocabulary)
_LONG_ON_GPU = replace(_LONG, prompt_tokens=4_000, action_tokens=(60, 60), vocabulary=QWEN2_HALF_BILLION.vocabulary)

CASES: Mapping[str, Case] = {
    "p60": Case(SMALL, _SHORT, {"whole": 3.5, "kept": 1.2, "shared": None}),
    "p60-varied": Case(SMALL, replace(_SHORT, action_tokens=VARIED), {"whole": 3.5, "kept": 1.2}),
    "p1000": Case(SMALL, _LONG, {"whole": 8.0, "kept": 2.0, "shared": None}),
    "p1000-varied": Case(SMALL, replace(_LONG, action_tokens=VARIED), {"whole": 8.0, "kept": 2.0}),
    "p1000-wide": Case(WIDE, _LONG_WIDE, {"kept": 2.0, "shared": None}),
    "p1000-wide-whole": Case(WIDE, _LONG_WIDE, {"whole": 8.0}, is_default=False),
    "p1000-alone": Case(SMALL, replace(_LONG, tasks=64, group_size=1), {"kept": None}),
    "p60-single": Case(SMALL, replace(_SHORT, tasks=1, group_size=1), {"kept": None}),
    "gpu": Case(QWEN2_HALF_BILLION, _LONG_ON_GPU, {"whole": 3.0}, is_default=False, is_on_gpu=True),
    "gpu-kept": Case(QWEN2_HALF_BILLION, _LONG_ON_GPU, {"kept": None}, is_default=False, is_on_gpu=True),
}
"""In the order in which they run. ``varied``: action lengths are drawn from 8 to 32, otherwise all are 20.
``alone``: no two rollouts share a prompt. ``single``: one environment, so nothing is batched. ``gpu`` and
``gpu-kept``: half a billion parameters on a CUDA device."""


def bench_rollout(bench: Bench, names: Sequence[str]) -> tuple[list[Result], dict[str, JsonValue]]:
    """Results and details of the named cases; no names = all default cases.

    Raises UnknownNameError, and MeasurementError when an implementation's tokens are not drawn from the model.
    """
    check_names(names, (*CASES, ASYNC_ROLLOUTS))
    measurements: dict[str, Measurement] = {}
    for name, case in CASES.items():
        if name in names or (not names and case.is_default):
            sized = case if bench.has_bars else quick(case)
            device = find_device() if case.is_on_gpu else "cpu"
            if device is None:
                measurements[name] = Measurement((Result(f"{name}_speedup_vs_whole", NO_DEVICE),))
            else:
                measurements[name] = measure_case(bench, name, sized, device)
    if ASYNC_ROLLOUTS in names or not names:
        measurements[ASYNC_ROLLOUTS] = measure_async_rollouts(bench)
    return combine(measurements)


def quick(case: Case) -> Case:
    """A small version of the case without bars."""
    conversations = replace(
        case.conversations,
        prompt_tokens=min(case.conversations.prompt_tokens, 100),
        tasks=min(case.conversations.tasks, 3),
        group_size=min(case.conversations.group_size, 2),
        turns=2,
        action_tokens=(2, 2 if case.conversations.action_tokens != VARIED else 8),
        observation_tokens=5,
        vocabulary=300,
    )
    return replace(
        case,
        model=replace(case.model, width=64, layers=2, vocabulary=300),
        conversations=conversations,
        bars=dict.fromkeys(case.bars),
    )


def measure_case(bench: Bench, name: str, case: Case, device: str) -> Measurement:
    """The engine compared with each baseline."""
    written = int(case.conversations.lengths().sum())
    results: list[Result] = []
    details = case.conversations.settings() | {
        "width": case.model.width,
        "layers": case.model.layers,
        "written_tokens": written,
    }
    details["attempts"] = details.pop("group_size")
    with _start(bench, case, ENGINE, device=device) as engine:
        results.append(result(f"{name}_logprob_gap", engine.prepared.number("max_logprob_gap"), "nats"))
        for baseline, limit in case.bars.items():
            bench.log(f"{name}: {bench.repetitions} pairs of steps, generate ({baseline}) and the engine")
            with _start_fastest(bench, case, baseline, device) as (cache, generate):
                pairs = alternate(generate.step, engine.step, bench.repetitions)
            bar = None if limit is None else Bar(limit)
            results += [
                result(f"{name}_speedup_vs_{baseline}", speedup(pairs), "x", bar),
                result(f"{name}_memory_vs_{baseline}", memory_ratio(pairs), "share"),
            ]
            details[baseline] = {
                "way": cache,
                "logprob_gap": generate.prepared.number("max_logprob_gap"),
                "their_tokens_per_second": [round(written / pair.baseline.seconds) for pair in pairs],
                "our_tokens_per_second": [round(written / pair.candidate.seconds) for pair in pairs],
                "their_peak_mb": round(median(pair.baseline.peak_bytes for pair in pairs) / 1e6),
                "our_peak_mb": round(median(pair.candidate.peak_bytes for pair in pairs) / 1e6),
            }
    return Measurement(tuple(results), details)


@contextmanager
def _start_fastest(bench: Bench, case: Case, baseline: Baseline, device: str) -> Iterator[tuple[str, Worker]]:
    """The baseline's faster kind of cache and its worker; the other worker is idle and only holds memory."""
    caches = _CACHES[baseline]
    with ExitStack() as stack:
        workers = {
            cache: stack.enter_context(_start(bench, case, GENERATE, device=device, cache=cache))
            for cache in caches
        }
        seconds = {cache: worker.step().seconds if len(caches) > 1 else 0.0 for cache, worker in workers.items()}
        fastest = min(caches, key=lambda cache: seconds[cache])
        yield fastest, workers[fastest]


@contextmanager
def _start(bench: Bench, case: Case, implementation: str, *, device: str, **options: JsonValue) -> Iterator[Worker]:
    """A worker. Raises MeasurementError when its tokens or log-probs are not the model's."""
    settings: dict[str, JsonValue] = {
        "model": asdict(case.model),
        "conversations": case.conversations.settings(),
        "threads": bench.threads,
        "device": device,
        "precision": "bfloat16" if case.is_on_gpu else "float32",
        **options,
    }
    with Worker(implementation, settings, bench.threads, TUNED_ALLOCATOR) as worker:
        measured, allowed = ("mean", MAX_MEAN_GAP) if case.is_on_gpu else ("max", MAX_LOGPROB_GAP)
        gap = worker.prepared.number(f"{measured}_logprob_gap")
        score = worker.prepared.number("z_score")
        if not (gap <= allowed and abs(score) <= MAX_Z_SCORE):
            raise MeasurementError(
                f"{implementation!r} {options or ''} does not sample from the model: its log-probs differ by "
                f"{gap:.2g} nats from a dense pass (allowed {allowed:g}, {measured}), its tokens are {score:.2g} "
                f"standard deviations from the model's expectation (allowed {MAX_Z_SCORE:g}); nothing was timed"
            )
        yield worker
