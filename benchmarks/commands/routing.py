"""``python -m benchmarks routing``: regret in simulated scenarios against Vowpal Wabbit, and time of a decision."""

from enum import StrEnum
from typing import Annotated

import typer

from benchmarks.commands.options import AsJson, Quick, emit_and_exit
from upturn.cli import progress
from upturn.records import JsonValue, Result


class Part(StrEnum):
    """A part of the benchmark."""

    DECISION = "decision"
    MODELS = "models"
    REGRET = "regret"


def bench_routing(  # noqa: PLR0913 - options
    seeds: Annotated[int, typer.Option(min=2, help="Simulated streams per scenario.")] = 20,
    tasks: Annotated[int, typer.Option(min=200, help="Tasks per stream.")] = 2_000,
    *,
    scenario: Annotated[
        list[str] | None, typer.Option(help="Scenario to simulate; repeatable. Default: all.")
    ] = None,
    only: Annotated[
        list[Part] | None,
        typer.Option(help="Part to run: time of a decision, strong and weak model, or regret; repeatable."),
    ] = None,
    first_seed: Annotated[int, typer.Option(min=0, help="Seed of the first stream; the others follow.")] = 0,
    quick: Quick = False,
    as_json: AsJson = False,
) -> None:
    """Route simulated tasks by Upturn's policies and by Vowpal Wabbit's, and time a decision of 100 agents.

    A strong and a weak model on 57 families show what learning costs where nothing changes, and how soon the
    default policy adapts when the strong one falls.

    It needs ``pip install vowpalwabbit==9.11.9``.
    """
    from benchmarks.routing.decision_time import measure_time
    from benchmarks.routing.regret import SCENARIOS, measure_regret
    from benchmarks.routing.strong_weak import TASKS, measure_strong_weak

    scenarios = SCENARIOS if scenario is None else tuple(scenario)
    if unknown := set(scenarios) - set(SCENARIOS):
        raise typer.BadParameter(f"unknown scenario {min(unknown)!r}; known: {', '.join(SCENARIOS)}")
    seeds, tasks, scenarios = (2, 200, SCENARIOS[:1]) if quick else (seeds, tasks, scenarios)
    parts = frozenset(only or Part)
    results: list[Result] = []
    details: dict[str, JsonValue] = {"seeds": seeds, "first_seed": first_seed, "tasks": tasks}
    if Part.DECISION in parts:
        results += measure_time(outcomes=300 if quick else 3_000)
    if Part.MODELS in parts:
        streams = 2 if quick else 8
        with progress("strong and weak", streams) as ticker:
            of_models, by_family = measure_strong_weak(
                streams=streams, tasks=600 if quick else TASKS, on_done=ticker.advance
            )
        results += of_models
        details["strong_and_weak_by_family"] = by_family
    if Part.REGRET in parts:
        with progress("streams", seeds * len(scenarios)) as ticker:
            results += measure_regret(
                scenarios, tasks=tasks, seeds=seeds, first_seed=first_seed, on_done=ticker.advance
            )
    emit_and_exit("routing", tuple(results), details, as_json=as_json)
