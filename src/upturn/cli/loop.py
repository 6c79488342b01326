"""``upturn loop``: the loop on the user's own tasks and agents."""

import os
import shlex
from pathlib import Path
from typing import Annotated

import typer

from upturn.cli.import_path import import_beside
from upturn.cli.launched import leading_world, started_again
from upturn.cli.live import LiveView
from upturn.cli.output import emit, resumable
from upturn.records import Result

loop_app = typer.Typer(no_args_is_help=True, help="Route, run, judge, remember, train and release: the whole loop.")


@loop_app.command("run")
def run(
    config_path: Annotated[Path, typer.Option("--config", help="The configuration file.")] = Path("upturn.toml"),
    resume: Annotated[str | None, typer.Option(help="Go on with a run: its folder, or 'latest'.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
) -> None:
    """Runs as many cycles as loop.cycles says: serve tasks, check the evidence, train, validate, release.

    Everything it makes lies in runs/<id>/: summary.json, the pool, the journal and the versions.

    Import paths in the file are looked up among what is installed, then beside the file, then where the command is
    started; other paths start where the command is started.
    """
    from upturn.config import keys_in
    from upturn.loop.trainers import lead_ranks, load_full_config, refuse_together

    world = leading_world()
    config = load_full_config(config_path, os.environ)
    if world is not None and "grpo" in config.loop.train:
        refuse_together(config, "grpo")
    import_beside(config_path)
    with LiveView("Upturn loop") as view:
        from upturn.cli.run_report import write_summary
        from upturn.loop import run_cycle
        from upturn.loop.run import choose_run, open_run

        run_dir = choose_run(Path(config.run.directory), "loop", resume)
        keys = keys_in(config, os.environ)
        again = ["upturn", "loop", "run", "--config", str(config_path), "--resume", str(run_dir)]
        with (
            resumable(shlex.join(started_again(world, again))),
            lead_ranks(world),
            open_run(config, run_dir, "loop run", view, api_keys=keys, world=world) as context,
        ):
            outcomes = [run_cycle(context, number) for number in range(1, config.loop.cycles + 1)]
            context.finish()
    results = [result for outcome in outcomes for result in outcome.results()]
    details = {"run": str(run_dir), "cycles": [outcome.summary for outcome in outcomes]}
    write_summary(run_dir, "loop run", results, details, config_hash=config.config_hash)
    emit("loop run", results, details, as_json=as_json, config_hash=config.config_hash)


@loop_app.command("status")
def status(
    run_dir: Annotated[Path | None, typer.Argument(help="A run's folder; left out = the newest loop run.")] = None,
    directory: Annotated[Path, typer.Option(help="Folder that holds the runs.")] = Path("runs"),
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
) -> None:
    """How far a run is: its steps, how long each took, and whether a process works on it now."""
    from upturn.loop.run import latest_run, read_progress

    folder = run_dir if run_dir is not None else latest_run(directory, "loop")
    found = read_progress(folder)
    done = sum(step.is_finished for step in found.steps)
    results = [
        Result("steps_finished", float(done), "steps"),
        Result("steps_open", float(len(found.steps) - done), "steps"),
        Result("seconds", sum((step.seconds or 0.0 for step in found.steps), 0.0), "s"),
    ]
    details = {
        "run": str(folder),
        "started_as": found.key.command,
        "state": f"process {found.pid} works on it" if found.pid else "nobody works on it",
        "times_resumed": max(found.opened - 1, 0),
        "steps": [
            {"step": step.name, "finished": step.is_finished, "seconds": step.seconds, "started": step.started}
            for step in found.steps
        ],
    }
    emit("loop status", results, details, as_json=as_json, config_hash=found.key.config_hash)
