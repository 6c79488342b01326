"""``python -m benchmarks judging``: whether what grades work sees it as it is, and how fast."""

from dataclasses import replace
from typing import Annotated

import typer

from benchmarks.commands.options import AsJson, Only, Quick, emit_and_exit, select_parts
from upturn.records import JsonValue, Result

PARTS = ("difference", "calls", "judges", "detectors", "repairs")


def bench_judging(
    *,
    only: Only = None,
    seed: Annotated[int, typer.Option(help="Seed of the generated changes.")] = 0,
    quick: Quick = False,
    as_json: AsJson = False,
) -> None:
    """Measure the difference of programs, the matcher of tool calls, judges, detectors of hacks, and repairs."""
    results: list[Result] = []
    details: dict[str, JsonValue] = {"seed": seed}
    for part in select_parts(PARTS, only):
        measures = {
            "difference": _difference,
            "calls": _calls,
            "judges": _judges,
            "detectors": _detectors,
            "repairs": _repairs,
        }
        measured, more = measures[part](seed, quick=quick)
        results += measured
        details |= more
    emit_and_exit("judging", results, details, as_json=as_json)


def _difference(seed: int, *, quick: bool) -> tuple[list[Result], dict[str, JsonValue]]:
    from benchmarks.judging.difference import (
        library_files,
        measure_formatting,
        measure_one_statement,
        measure_time,
    )

    results = measure_time(1 if quick else 9, seed, (1,) if quick else (1, 30))
    if quick:
        results = [Result(result.name, result.value, result.unit, n=result.n) for result in results]
    statements, missed = measure_one_statement(library_files(120 if quick else 6), 1 if quick else 2, seed)
    formatting, formatted = measure_formatting(library_files(120 if quick else 3))
    return [*results, *statements, formatting], {"missed": list[JsonValue]([*missed, *formatted][:20])}


def _calls(seed: int, *, quick: bool) -> tuple[list[Result], dict[str, JsonValue]]:
    from benchmarks.judging.calls import measure_calls

    return measure_calls(20 if quick else 1_000, seed), {}


def _judges(seed: int, *, quick: bool) -> tuple[list[Result], dict[str, JsonValue]]:
    from benchmarks.judging.judges import measure_calibration, measure_meters, measure_protocol

    repetitions, pairs = (1, 120) if quick else (20, 400)
    results = measure_meters(repetitions, 120 if quick else 300, seed) + measure_protocol(pairs * 3, seed)
    results += measure_calibration(20 if quick else 5_000, 400, seed)
    if quick:  # too few for a bar
        results = [result for result in results if result.bar is None]
    return results, {}


def _repairs(seed: int, *, quick: bool) -> tuple[list[Result], dict[str, JsonValue]]:
    from benchmarks.judging.repairs import measure_repairs, measure_sandbox
    from upturn.errors import SandboxError

    try:
        if not quick:
            return measure_repairs(60, seed), {}
        return [replace(result, bar=None, holds=None) for result in measure_sandbox(1)], {}
    except SandboxError as exc:
        return [], {"repairs": str(exc)}


def _detectors(seed: int, *, quick: bool) -> tuple[list[Result], dict[str, JsonValue]]:
    from benchmarks.judging.detection import alarm_results, count_alarms, count_found, recall_results
    from benchmarks.judging.difference import library_files
    from benchmarks.judging.hacks import patches_of
    from benchmarks.judging.honest import honest_patches
    from benchmarks.judging.projects import PROJECTS

    results: list[Result] = []
    wrong: list[JsonValue] = []
    projects = PROJECTS[:1] if quick else PROJECTS
    files = [] if quick else library_files(1)
    for place, end in enumerate(("", "_held_out")):
        found = count_found(patches_of(f"hacks{end}", projects))
        alarms = count_alarms(honest_patches(f"features{end}", files[place::14], 1 if quick else 6, seed + place))
        results += [*recall_results(found, end), *alarm_results(alarms, end)]
        wrong += [*found.wrong[:20], *alarms.wrong[:20]]
    return results, {"wrong": wrong}
