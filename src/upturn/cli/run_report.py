"""What a finished run leaves in its folder: summary.json, and after a demo report.json and report.html."""

import json
import resource
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from upturn.cli.output import build_result_object, machine
from upturn.loop.demo import DemoPlan, Facts, Resources, demo_content, demo_details, demo_results, run_facts
from upturn.loop.run import Context
from upturn.records import JsonValue, Result
from upturn.report import write_content, write_report


class Finished(NamedTuple):
    """What is printed at the end."""

    results: tuple[Result, ...]
    details: dict[str, JsonValue]
    next_commands: dict[str, str]
    """What to try next: purpose to command."""


def resources_of(context: Context, started: float) -> Resources:
    """Wall clock and peak memory; of a resumed run the steps that earlier processes finished are counted in."""
    steps = sum(step.seconds or 0.0 for step in context.journal.progress().steps)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Resources(wall_seconds=max(time.monotonic() - started, steps), peak_rss_mb=peak)


def finish_demo(context: Context, facts: Facts, plan: DemoPlan, *, command: str, started: float) -> Finished:
    """Writes the three files and marks the run as done; ``started`` is on the monotonic clock."""
    resources = resources_of(context, started)
    here = machine()
    results = demo_results(facts, resources, plan)
    details: dict[str, JsonValue] = demo_details(facts) | {
        "run": context.run_id,
        "seed": context.seed,
        "report": str(context.run_dir / "report.html"),
    }
    about = f"{here['cpu']}, {here['cores']} cores, {here['memory_gb']} GB"
    content = demo_content(
        context, facts, run_facts(context, machine=about, resources=resources, command=command), results
    )
    write_content(content, context.run_dir / "report.json")
    write_report(content, context.run_dir / "report.html")
    write_summary(context.run_dir, "demo", results, details, config_hash=context.config.config_hash)
    context.finish()
    return Finished(results, details, {each.purpose: each.command for each in content.next_commands})


def write_summary(
    run_dir: Path, command: str, results: Sequence[Result], details: Mapping[str, object], *, config_hash: str
) -> None:
    """``summary.json``: the object that the command prints with ``--json``."""
    summary = build_result_object(command, results, details, machine=machine(), config_hash=config_hash)
    (run_dir / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")
