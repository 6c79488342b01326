"""``upturn demo``: the whole loop with the shipped model, then the report."""

import resource
import time
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from upturn.cli.live import LiveView
from upturn.cli.options import AsJson, Resume
from upturn.cli.output import emit, machine, resume_hint, write_summary

if TYPE_CHECKING:
    from upturn.loop.run import Context


def demo(  # noqa: PLR0917  # one parameter per option
    seed: Annotated[int, typer.Option(min=0, help="Seed of all random choices.")] = 0,
    size: Annotated[
        Literal["tiny", "brief", "full"],
        typer.Option(
            help="brief: ten task families of the office, in minutes; full: 37 families, which takes longer; tiny: "
            "all steps in about a minute."
        ),
    ] = "brief",
    directory: Annotated[Path, typer.Option(help="Folder of the runs.")] = Path("runs"),
    resume: Resume = None,
    as_json: AsJson = False,
) -> None:
    """Run three agents in a simulated office, improve one of them, and release it through a canary.

    The run's folder runs/<id>/ contains report.html, summary.json, the pool, the journal and the versions. Resume a
    run with the same seed and size.
    """
    started = time.monotonic()
    with LiveView("Upturn demo: an agent gets better by working") as view:
        view.stage("Start")
        from upturn.loop.demo import (
            PLANS,
            Resources,
            demo_config,
            demo_content,
            demo_details,
            demo_results,
            run_demo,
        )
        from upturn.loop.demo import run_facts as facts_of
        from upturn.loop.run import choose_run, open_run
        from upturn.report import write_content, write_report

        plan = PLANS[size]
        run_dir = choose_run(directory, "demo", resume)
        config = demo_config(seed=seed, directory=str(directory), plan=plan)
        command = f"upturn demo --seed {seed} --size {size}"
        with (
            resume_hint(f"{command} --directory {quote(str(directory))} --resume {quote(str(run_dir))}"),
            open_run(config, run_dir, f"demo --size {size}", view) as context,
        ):
            facts = run_demo(context, plan)
            view.stage("Write the report")
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            resources = Resources(_wall_seconds(context, started), peak_rss_mb=peak)
            results = demo_results(facts, resources, plan)
            here = machine()
            description = f"{here['cpu']}, {here['cores']} cores, {here['memory_gb']} GB"
            run_facts = facts_of(context, machine=description, resources=resources, command=command)
            content = demo_content(context, facts, run_facts, results, bars_note=plan.bars_note)
            write_content(content, run_dir / "report.json")
            write_report(content, run_dir / "report.html")
            report = str(run_dir / "report.html")
            details = {**demo_details(facts), "run": context.run_id, "seed": context.seed, "report": report}
            write_summary(run_dir, "demo", results, details, config_hash=config.config_hash)
            context.finish()
    next_commands = {item.purpose: item.command for item in content.next_commands}
    shown = {"report": report, "try next": next_commands} | ({"note": plan.bars_note} if plan.bars_note else {})
    emit("demo", results, details if as_json else shown, as_json=as_json, config_hash=config.config_hash)


def _wall_seconds(context: "Context", started: float) -> float:
    """Time of the run; for a resumed run, at least that of all finished steps."""
    steps = sum(step.seconds or 0.0 for step in context.journal.progress().steps)
    return max(time.monotonic() - started, steps)
