"""``upturn demo``: the whole loop on the embedded default, then the report."""

import time
from pathlib import Path
from shlex import quote
from typing import Annotated, Literal

import typer

from upturn.cli.live import LiveView
from upturn.cli.output import emit, resumable


def demo(  # noqa: PLR0917  # one parameter per option
    seed: Annotated[int, typer.Option(min=0, help="Everything random is derived from it.")] = 0,
    size: Annotated[
        Literal["tiny", "brief", "full"],
        typer.Option(
            help="brief: ten families of the office, in minutes; full: 37 of them, which takes longer; tiny: the "
            "same steps in about a minute."
        ),
    ] = "brief",
    directory: Annotated[Path, typer.Option(help="Folder that holds one folder per run.")] = Path("runs"),
    resume: Annotated[
        str | None, typer.Option(help="Go on with a run: its folder, or 'latest'; seed and size as it began.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
) -> None:
    """Lets three agents work in an office, improves one of them, and releases it through a canary.

    Everything it makes lies in runs/<id>/: report.html, summary.json, the pool, the journal and the versions.
    """
    started = time.monotonic()
    with LiveView("Upturn demo: an agent gets better by working") as view:
        view.stage("Start")
        from upturn.cli.run_report import finish_demo
        from upturn.loop.demo import PLANS, demo_config, run_demo
        from upturn.loop.run import choose_run, open_run

        plan = PLANS[size]
        run_dir = choose_run(directory, "demo", resume)
        config = demo_config(seed=seed, directory=str(directory), plan=plan)
        command = f"upturn demo --seed {seed} --size {size}"
        with (
            resumable(f"{command} --directory {quote(str(directory))} --resume {quote(str(run_dir))}"),
            open_run(config, run_dir, f"demo --size {size}", view) as context,
        ):
            facts = run_demo(context, plan)
            view.stage("Write the report")
            made = finish_demo(context, facts, plan, command=command, started=started)
    details = made.details if as_json else {"report": str(run_dir / "report.html"), "try next": made.next_commands}
    emit("demo", made.results, details, as_json=as_json, config_hash=config.config_hash)
