"""All measurements of multi-turn sampling, by name: what ``python -m benchmarks rollout`` runs.

Sixty-four environments are alive: eight tasks with eight attempts each, which share their task's prompt, as groups
do. Each side is a process with the same threads and the same tuned allocator. Before anything is timed every side's
log-probs are compared with a dense forward pass of the model over the whole history, and its tokens are tested to
have been drawn from the model. Seconds cover all turns, our copying of the weights included.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Literal, TypeAlias

from benchmarks.async_rollouts import measure_ahead
from benchmarks.comparison import Bar, alternate, memory_ratio, result, speedup, spread
from benchmarks.measurement import Measured
from benchmarks.worker import TUNED_ALLOCATOR, Worker
from benchmarks.workloads import Conversations, Subject
from upturn.errors import MeasurementError, UnknownNameError
from upturn.records import JsonValue, Result

ENGINE_SIDE = "benchmarks.implementations.engine:engine_side"
GENERATE_SIDE = "benchmarks.implementations.generate:generate_side"
LARGEST_GAP = 1e-4
"""Of log-probs to a dense pass, in nats; observed are a few 1e-6."""
LARGEST_SCORE = 5.0
"""Deviations that sampled tokens may lie from what the model expects: exceeded once in 1.7 million samples."""

Rival: TypeAlias = Literal["whole", "kept", "shared"]
"""``generate`` on the whole history each turn; given its cache back; the same with prompts computed once a task."""
_WAYS: Mapping[Rival, tuple[str, ...]] = {
    "whole": ("whole",),
    "kept": ("growing", "allocated"),
    "shared": ("shared",),
}
"""What each rival may be; of several the faster in one step is measured."""
Say: TypeAlias = Callable[[str], None]
SMALL = Subject(width=128, layers=4, vocabulary=530)
WIDE = Subject(width=256, layers=6, vocabulary=4_096)
AHEAD = "ahead"
"""The measurement of training with sampling ahead, see ``benchmarks.async_rollouts``."""
VARIED = (8, 32)
"""Tokens of an action where agents end their actions themselves."""


@dataclass(frozen=True, slots=True)
class Case:
    """One workload, and whom the engine is compared with on it."""

    subject: Subject
    conversations: Conversations
    rivals: Mapping[Rival, float | None]
    """``generate`` called in this way, and the bar of the speed-up; None = only reported."""
    is_default: bool = True
    """False = run only when it is named: it takes long."""


_SHORT = Conversations(60, vocabulary=SMALL.vocabulary)
_LONG = Conversations(1_000, vocabulary=SMALL.vocabulary)
_LONG_WIDE = Conversations(1_000, vocabulary=WIDE.vocabulary)

CASES: Mapping[str, Case] = {
    "p60": Case(SMALL, _SHORT, {"whole": 3.5, "kept": 1.2, "shared": None}),
    "p60-varied": Case(SMALL, replace(_SHORT, action_tokens=VARIED), {"whole": 3.5, "kept": 1.2}),
    "p1000": Case(SMALL, _LONG, {"whole": 8.0, "kept": 2.0, "shared": None}),
    "p1000-varied": Case(SMALL, replace(_LONG, action_tokens=VARIED), {"whole": 8.0, "kept": 2.0}),
    "p1000-wide": Case(WIDE, _LONG_WIDE, {"kept": 2.0, "shared": None}),
    "p1000-wide-whole": Case(WIDE, _LONG_WIDE, {"whole": 8.0}, is_default=False),
    "p1000-alone": Case(SMALL, replace(_LONG, tasks=64, attempts=1), {"kept": None}),
    "p60-single": Case(SMALL, replace(_SHORT, tasks=1, attempts=1), {"kept": None}),
}
"""In the order in which they run. ``varied``: action lengths are drawn from 8 to 32, else all are 20. ``alone``: no
two attempts share a prompt. ``single``: one environment, where nothing is batched."""


@dataclass(frozen=True, slots=True)
class RolloutBench:
    """How everything is measured."""

    threads: int
    repetitions: int = 5
    is_quick: bool = False
    """Tiny conversations that show that it works; no bars."""
    say: Say = lambda _: None
    """Takes one line for people: what is happening now."""


def bench_rollout(bench: RolloutBench, names: Sequence[str]) -> tuple[list[Result], dict[str, JsonValue]]:
    """Results and details of the named cases; no names = all but those that take longest.

    Raises UnknownNameError, and MeasurementError when a side's tokens are not the model's.
    """
    known = (*CASES, AHEAD)
    unknown = [name for name in names if name not in known]
    if unknown:
        raise UnknownNameError(f"unknown measurement {unknown[0]!r}; known: {', '.join(known)}")
    results: list[Result] = []
    details: dict[str, JsonValue] = {}
    for name, case in CASES.items():
        if name in names or (not names and case.is_default):
            measured = measure_case(bench, name, quick(case) if bench.is_quick else case)
            results += measured.results
            details[name] = dict(measured.details)
    if AHEAD in names or not names:
        bench.say(f"{AHEAD}: {bench.repetitions} pairs of training in turn and with sampling ahead")
        measured = measure_ahead(bench.threads, bench.repetitions, is_quick=bench.is_quick)
        results += measured.results
        details[AHEAD] = dict(measured.details)
    return results, details


def quick(case: Case) -> Case:
    """The same in small, and without bars: its figures say nothing."""
    shape = replace(
        case.conversations,
        prompt_tokens=min(case.conversations.prompt_tokens, 100),
        tasks=min(case.conversations.tasks, 3),
        attempts=min(case.conversations.attempts, 2),
        turns=2,
        action_tokens=(2, 2 if case.conversations.action_tokens != VARIED else 8),
        observation_tokens=5,
        vocabulary=300,
    )
    return replace(
        case,
        subject=replace(case.subject, width=64, layers=2, vocabulary=300),
        conversations=shape,
        rivals=dict.fromkeys(case.rivals),
    )


def measure_case(bench: RolloutBench, name: str, case: Case) -> Measured:
    """The engine against each rival, pair by pair."""
    written = int(case.conversations.lengths().sum())
    results: list[Result] = []
    details: dict[str, JsonValue] = {
        **case.conversations.settings(),
        "width": case.subject.width,
        "layers": case.subject.layers,
        "written_tokens": written,
    }
    with _side(bench, case, ENGINE_SIDE) as ours:
        results.append(result(f"{name}_logprob_gap", ours.prepared.number("max_logprob_gap"), "nats"))
        for rival, limit in case.rivals.items():
            bench.say(f"{name}: {bench.repetitions} pairs of steps, generate ({rival}) and the engine")
            with _rival(bench, case, rival) as (way, theirs):
                pairs = alternate(theirs.step, ours.step, bench.repetitions)
            bar = None if limit is None else Bar(limit)
            results += [
                result(f"{name}_speedup_vs_{rival}", speedup(pairs), "x", bar),
                result(f"{name}_memory_vs_{rival}", memory_ratio(pairs), "share"),
            ]
            details[rival] = {
                "way": way,
                "logprob_gap": theirs.prepared.number("max_logprob_gap"),
                "their_tokens_per_second": [round(written / pair.theirs.seconds) for pair in pairs],
                "our_tokens_per_second": [round(written / pair.ours.seconds) for pair in pairs],
                "their_peak_mb": round(spread([pair.theirs.peak_bytes for pair in pairs]).value / 1e6),
                "our_peak_mb": round(spread([pair.ours.peak_bytes for pair in pairs]).value / 1e6),
            }
    return Measured(tuple(results), details)


@contextmanager
def _rival(bench: RolloutBench, case: Case, rival: Rival) -> Iterator[tuple[str, Worker]]:
    """The rival in its faster way, and which that is. The other waits meanwhile, which takes memory only."""
    ways = _WAYS[rival]
    with ExitStack() as stack:
        sides = {way: stack.enter_context(_side(bench, case, GENERATE_SIDE, how=way)) for way in ways}
        seconds = {way: side.step().seconds for way, side in sides.items()} if len(ways) > 1 else {ways[0]: 0.0}
        best = min(ways, key=lambda way: seconds[way])
        yield best, sides[best]


@contextmanager
def _side(bench: RolloutBench, case: Case, side: str, **own: JsonValue) -> Iterator[Worker]:
    """A side's process. Raises MeasurementError when what it wrote was not drawn from the model as it says."""
    settings: dict[str, JsonValue] = {
        "subject": asdict(case.subject),
        "conversations": case.conversations.settings(),
        "threads": bench.threads,
        **own,
    }
    with Worker(side, settings, bench.threads, TUNED_ALLOCATOR) as worker:
        gap, score = worker.prepared.number("max_logprob_gap"), worker.prepared.number("z_score")
        if not (gap <= LARGEST_GAP and abs(score) <= LARGEST_SCORE):
            raise MeasurementError(
                f"side {side!r} {own or ''} does not sample from the model: its log-probs differ by {gap:.2g} nats "
                f"from a dense pass (allowed {LARGEST_GAP:g}), its tokens lie {score:.2g} standard deviations from "
                f"what the model expects (allowed {LARGEST_SCORE:g}); nothing was timed"
            )
        yield worker
