"""``upturn loop``: the loop on the user's own tasks and agents."""

import os
import shlex
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from upturn.cli.distributed import launch_command, lead_world
from upturn.cli.live import LiveView
from upturn.cli.options import CONFIG_PATH, AsJson, ConfigPath, Resume, read_config
from upturn.cli.output import emit, resume_hint, write_summary
from upturn.errors import ConfigError
from upturn.records import Result

if TYPE_CHECKING:
    from upturn.loop import CycleOutcome

loop_app = typer.Typer()

_MOST_CYCLES = 100
"""Latest cycles in the results of a loop that goes on by itself."""


@loop_app.command("run")
def run(
    config_path: ConfigPath = CONFIG_PATH,
    resume: Resume = None,
    forever: Annotated[
        bool,
        typer.Option(
            "--forever", help="Go on with further cycles until it is stopped; the section schedule says when."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run loop.cycles cycles: serve tasks, check the evidence, train, validate, release.

    A run on a pool of earlier runs (pool.path) begins with what they have learned and promoted.

    The run's folder runs/<id>/ contains summary.json, the pool, the journal and the versions.

    Import paths in the file are resolved among installed packages, then in the file's folder, then in the current
    folder; other paths are relative to the current folder.
    """
    from upturn.config import api_keys
    from upturn.loop.trainers import algorithm, lead_ranks

    world = lead_world()
    config = read_config(config_path)
    if forever and config.loop.cycles != 1:
        raise ConfigError([f"loop.cycles = {config.loop.cycles} has no effect with --forever; omit one of them"])
    if world is not None:
        for name in config.loop.train:
            algorithm(name).check_ranks(config)
    with LiveView("Upturn loop") as view:
        from upturn.loop import cycles, run_cycle
        from upturn.loop.run import choose_run, open_run

        run_dir = choose_run(Path(config.run.directory), "loop", resume)
        keys = api_keys(config, os.environ, config_path)
        resume_command = ["upturn", "loop", "run", "--config", str(config_path), "--resume", str(run_dir)]
        resume_command += ["--forever"] if forever else []
        with (
            resume_hint(shlex.join(launch_command(world, resume_command))),
            lead_ranks(world),
            open_run(config, run_dir, "loop run", view, api_keys=keys, world=world) as context,
        ):
            is_endless = forever or config.schedule is not None
            numbers = cycles(context) if is_endless else range(1, config.loop.cycles + 1)
            outcomes = deque["CycleOutcome"](maxlen=_MOST_CYCLES if is_endless else None)
            for number in numbers:
                outcomes.append(run_cycle(context, number))
                if is_endless:
                    view.note(f"cycle {number}: {outcomes[-1].summary}")
            context.finish()
    results = [result for outcome in outcomes for result in outcome.results()]
    details = {"run": str(run_dir), "cycles": [outcome.summary for outcome in outcomes]}
    write_summary(run_dir, "loop run", results, details, config_hash=config.config_hash)
    emit("loop run", results, details, as_json=as_json, config_hash=config.config_hash)


@loop_app.command("status")
def status(
    run_dir: Annotated[Path | None, typer.Argument(help="A run's folder. Default: the newest loop run.")] = None,
    directory: Annotated[Path, typer.Option(help="Folder of the runs.")] = Path("runs"),
    as_json: AsJson = False,
) -> None:
    """Show a run's steps, their times, and whether a process is running it."""
    from upturn.loop.run import latest_run, read_progress

    folder = run_dir if run_dir is not None else latest_run(directory, "loop")
    progress = read_progress(folder)
    done = sum(step.is_finished for step in progress.steps)
    results = [
        Result("steps_finished", float(done), "steps"),
        Result("steps_open", float(len(progress.steps) - done), "steps"),
        Result("seconds", sum((step.seconds or 0.0 for step in progress.steps), 0.0), "s"),
    ]
    details = {
        "run": str(folder),
        "started_as": progress.key.command,
        "state": f"running in process {progress.pid}" if progress.pid else "not running",
        "times_resumed": max(progress.opened - 1, 0),
        "steps": [
            {"step": step.name, "finished": step.is_finished, "seconds": step.seconds, "started": step.started}
            for step in progress.steps
        ],
    }
    emit("loop status", results, details, as_json=as_json, config_hash=progress.key.config_hash)
