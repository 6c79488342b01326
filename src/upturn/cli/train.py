"""``upturn train``: trains an agent with one algorithm, and writes the pages of training runs."""

import os
import shlex
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup
from typer.main import get_command as as_command

from upturn.cli.distributed import launch_command, lead_world
from upturn.cli.live import LiveView
from upturn.cli.options import CONFIG_PATH, AsJson, ConfigPath, Resume, read_config
from upturn.cli.output import emit, resume_hint, write_summary
from upturn.errors import ClusterError, ConfigError, ModelError, TrainingError
from upturn.loop.trainers import ALGORITHMS, run_name
from upturn.records import Result


class _TrainGroup(TyperGroup):
    """A group that also accepts the import path ``module:NAME`` of an algorithm as a command."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command with this name."""
        if ":" not in cmd_name:
            return super().get_command(ctx, cmd_name)
        holder = typer.Typer(add_completion=False)
        holder.command(cmd_name)(_command(cmd_name, f"Train with the algorithm at {cmd_name}."))
        return as_command(holder)


train_app = typer.Typer(cls=_TrainGroup)


def _command(algorithm: str, summary: str) -> Callable[..., None]:
    def command(
        config_path: ConfigPath = CONFIG_PATH,
        resume: Resume = None,
        dry_run: Annotated[
            bool, typer.Option("--dry-run", help="Print the steps and estimated cost of a run, without running it.")
        ] = False,
        as_json: AsJson = False,
    ) -> None:
        if dry_run and resume is not None:
            raise ConfigError([f"--resume {resume} has no effect with --dry-run; omit one of them"])
        if not dry_run:
            _train(algorithm, config_path, resume, as_json=as_json)
        elif _is_rank0():
            _plan(algorithm, config_path, as_json=as_json)

    command.__doc__ = f"""{summary}

    The agent is evaluated on held-out tasks before and after. The run's folder runs/<id>/ contains card.md,
    summary.json, config.json, the training run with its curves (training/{run_name(algorithm)}/report.html), the
    pool and the new version.
    """
    return command


for _name, _summary in ALGORITHMS.items():
    train_app.command(_name)(_command(_name, _summary))


def _plan(algorithm: str, config_path: Path, *, as_json: bool) -> None:
    from upturn.config import api_keys

    config = read_config(config_path, *([algorithm] if ":" in algorithm else []))
    with LiveView(f"Upturn train {algorithm}: plan") as view, TemporaryDirectory() as folder:
        from upturn.loop.rollouts import check_sampler, sampling_here
        from upturn.loop.run import open_run
        from upturn.loop.trainers import algorithm as algorithm_of
        from upturn.loop.trainers import check, trained_incumbent, with_copied_pool

        check(config, algorithm)
        entry, run_dir = algorithm_of(algorithm), Path(folder) / "plan"
        copied = with_copied_pool(config, Path(folder), is_read="pool" in entry.uses)
        command, keys = f"train {algorithm} --dry-run", api_keys(config, os.environ, config_path)
        with open_run(copied, run_dir, command, view, api_keys=keys) as opened:
            context = replace(opened, config=config)  # messages name the original pool
            try:
                check_sampler(context)
            except (ClusterError, ModelError) as exc:
                view.note(f"a run could not start now: {exc}")
                context = sampling_here(context)
            plan = entry.plan(context, trained_incumbent(context))
    details: dict[str, object] = {"algorithm": algorithm, "learns_from": plan.learns_from, "basis": plan.basis}
    details |= {"settings": config.to_dict()} if as_json else {}
    emit(f"train {algorithm}", plan.results(), details, as_json=as_json, config_hash=config.config_hash)


def _train(algorithm: str, config_path: Path, resume: str | None, *, as_json: bool) -> None:
    from upturn.config import api_keys
    from upturn.loop.trainers import algorithm as find_algorithm
    from upturn.loop.trainers import lead_ranks

    world = lead_world()
    config = read_config(config_path, *([algorithm] if ":" in algorithm else []))
    if world is not None:
        find_algorithm(algorithm).check_ranks(config)
    with LiveView(f"Upturn train {algorithm}") as view:
        from upturn.loop.run import choose_run, open_run
        from upturn.loop.trainers import check, run_training, write_card

        check(config, algorithm)
        name = f"train-{run_name(algorithm)}"
        run_dir = choose_run(Path(config.run.directory), name, resume)
        resume_command = ["upturn", "train", algorithm, "--config", str(config_path), "--resume", str(run_dir)]
        with (
            resume_hint(shlex.join(launch_command(world, resume_command))),
            lead_ranks(world),
            open_run(
                config, run_dir, name, view, api_keys=api_keys(config, os.environ, config_path), world=world
            ) as context,
        ):
            outcome = run_training(context, algorithm)
            card = write_card(context, outcome)
            context.finish()
    results = outcome.results()
    details = {"run": str(run_dir), "made": outcome.trained.made or outcome.candidate.id, "card": card}
    write_summary(run_dir, f"train {algorithm}", results, details, config_hash=config.config_hash)
    emit(f"train {algorithm}", results, details, as_json=as_json, config_hash=config.config_hash)


def _is_rank0() -> bool:
    from upturn.training.distributed import world_from_environment

    world = world_from_environment()
    return world is None or world.is_first


@train_app.command("report")
def report(
    run_dir: Annotated[Path, typer.Argument(help="Folder of a training run, or of a demo or loop run.")],
    watch: Annotated[
        float | None,
        typer.Option(min=1, help="Seconds between updates of the pages, until all training runs have ended."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write report.html into the folders of training runs: curves, why a run stopped, which weights are kept.

    The runs may be finished, active or interrupted. With --watch, open pages reload themselves.
    """
    written = _write_pages(run_dir, watch)
    if watch is not None and not written.is_over:
        page, *_ = written.pages.values()
        typer.echo(f"{page} is updated every {watch:g} s until the run has ended; Ctrl-C stops it", err=True)
    while watch is not None and not written.is_over:
        time.sleep(watch)
        written = _write_pages(run_dir, watch)
    emit("train report", written.results, {"pages": written.pages}, as_json=as_json)


class _Written(NamedTuple):
    """The pages of a folder."""

    results: list[Result]
    pages: dict[str, str]
    """Paths by the run's name."""
    is_over: bool
    """Whether all training runs have ended."""


def _write_pages(run_dir: Path, reload_seconds: float | None) -> _Written:
    from upturn.report.training import read_training, write_training_report
    from upturn.training.runs import CURVE_FILE, DESCRIPTION_FILE

    folders = sorted(path.parent for path in run_dir.rglob(DESCRIPTION_FILE))
    if not folders:
        raise TrainingError(
            f"there is no training run in {str(run_dir)!r}: no folder in it has {DESCRIPTION_FILE}; name a folder "
            "such as runs/<id>/training/<name>, or that of a run"
        )
    results, pages, is_over = list[Result](), dict[str, str](), True
    for folder in folders:
        name = folder.relative_to(run_dir).as_posix() if folder != run_dir else folder.resolve().name
        training = read_training(folder)
        units = training.points[-1].units if training.points else 0
        if training.outcome is not None and units < training.outcome.units:
            curve = folder / CURVE_FILE
            problem = f"ends after {units} of" if curve.exists() else "is missing, with"
            raise TrainingError(
                f"the curve {str(curve)!r} {problem} the {training.outcome.units} "
                f"{training.description.plan.unit}s of the run; restore the file"
            )
        pages[name] = str(write_training_report(folder, reload_seconds=reload_seconds))
        results.append(Result(f"{name}: {training.description.plan.unit}s", float(units)))
        if training.outcome is None:
            is_over = False
        else:
            results.append(Result(f"{name}: stopped", training.outcome.stopped))
    return _Written(results, pages, is_over)
