"""Time of programs against that of the same requests sent straight to the engine.

The programs run first, and the engine's requests are recorded; then the same requests go to the engine, each
session's one after another and all sessions at the same time. Both get the same tokens, or nothing is reported.
"""

import itertools
import time
from typing import NamedTuple

from benchmarks.comparison import result, spread
from benchmarks.measurement import Measurement
from benchmarks.program.chat_models import NANO, load_measured
from benchmarks.program.observed_engine import Calls, ObservedEngine
from benchmarks.program.plan import Plan, load
from benchmarks.program.talk import KIT, attempts, send_straight, setting
from upturn.agents import Setting
from upturn.errors import MeasurementError
from upturn.models.engine import LocalEngine
from upturn.records import JsonValue, Result

_SAME_SHARE = 0.999
"""Of answers: batches that are composed otherwise round otherwise, which seldom changes a token."""
_MODELS = {"nano": NANO, "middle": "qwen2_5"}


class _Costs(NamedTuple):
    seconds: float
    processor_seconds: float
    """Of this process."""
    forwards: int
    """Passes through the model."""


def measure_overhead(plan: Plan) -> Measurement:
    """Programs in this process, and commands, on the shipped model and on one of 25 million parameters."""
    results: list[Result] = []
    details: dict[str, JsonValue] = {"load_before": load()}
    for name, model in _MODELS.items():
        local = load_measured(model, plan.model)
        length = plan.talk.limits.max_tokens
        assert length is not None
        engine = LocalEngine(local.model, slots=2 * plan.parallel, max_length=length, tokenizer=local.tokenizer)
        observed = ObservedEngine(engine)
        for kind, program in (("functions", plan.talk.program), ("commands", plan.talk.command)):
            setup = setting(local, observed, program, plan.talk.limits, parallel=plan.parallel, key=kind)
            pairs: list[tuple[_Costs, _Costs]] = []
            for repetition in range(plan.repetitions + 1):  # the first one warms up
                plan.log(f"overhead: {name}, {kind}, repetition {repetition} of {plan.repetitions}")
                ours, calls = _programs(engine, observed, setup, plan)
                straight = _straight(engine, calls)
                if repetition:
                    pairs.append((ours, straight))
            calls_made = plan.parallel * plan.talk.turns
            limit = plan.bar(1.1, is_upper=True) if name == "middle" else None
            results += [
                result(f"{name}_{kind}_time", spread([a.seconds / b.seconds for a, b in pairs]), "x", limit),
                result(
                    f"{name}_{kind}_processor_time",
                    spread([a.processor_seconds / b.processor_seconds for a, b in pairs]),
                    "x",
                ),
                result(
                    f"{name}_{kind}_added",
                    spread([1e3 * (a.processor_seconds - b.processor_seconds) / calls_made for a, b in pairs]),
                    "ms of processor a call",
                ),
            ]
            details[f"{name}_{kind}"] = {
                "seconds": [round(ours.seconds, 3) for ours, _ in pairs],
                "straight_seconds": [round(straight.seconds, 3) for _, straight in pairs],
                "forwards": [ours.forwards for ours, _ in pairs],
                "straight_forwards": [straight.forwards for _, straight in pairs],
                "calls": calls_made,
            }
    details["load_after"] = load()
    return Measurement(tuple(results), details)


def _programs(engine: LocalEngine, observed: ObservedEngine, setup: Setting, plan: Plan) -> tuple[_Costs, Calls]:
    """Raises MeasurementError where an attempt or a call is missing."""
    tasks = list(itertools.islice(KIT.tasks(seed=0, split="train", families=["talk"]), plan.parallel))
    engine.refresh()
    before, started, processor = engine.counters.forwards, time.perf_counter(), time.process_time()
    trajectories = attempts(setup, tasks, parallel=plan.parallel)
    costs = _Costs(
        time.perf_counter() - started, time.process_time() - processor, engine.counters.forwards - before
    )
    calls = observed.taken()
    failed = [
        trajectory.error or trajectory.outcome for trajectory in trajectories if trajectory.outcome != "finished"
    ]
    if failed or len(calls) != len(tasks) * plan.talk.turns:
        raise MeasurementError(f"{len(calls)} calls were made, and {len(failed)} attempts failed: {failed[:1]}")
    return costs, calls


def _straight(engine: LocalEngine, calls: Calls) -> _Costs:
    """Raises MeasurementError where the tokens are others."""
    engine.refresh()
    before, processor = engine.counters.forwards, time.process_time()
    sent = send_straight(engine, calls)
    costs = _Costs(sent.seconds, time.process_time() - processor, engine.counters.forwards - before)
    same = sum(
        generation.token_ids == received.token_ids
        for (_, generation), received in zip(calls, sent.generations, strict=True)
    )
    if same < _SAME_SHARE * len(calls) - 1:
        raise MeasurementError(f"only {same} of {len(calls)} answers have the tokens that the programs got")
    return costs
