"""``upturn train``: one way of learning by itself, and the pages of training runs."""

import os
import shlex
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup
from typer.main import get_command as as_command

from upturn.cli.import_path import import_beside
from upturn.cli.launched import leading_world, started_again
from upturn.cli.live import LiveView
from upturn.cli.output import emit, resumable
from upturn.errors import ClusterError, ConfigError, ModelError, TrainingError
from upturn.loop.trainers import ALGORITHMS, load_full_config, run_name
from upturn.records import Result

if TYPE_CHECKING:
    from upturn.config import Config


class _TrainGroup(TyperGroup):
    """Knows an algorithm of the user's own by its import path, ``module:NAME``."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of that name."""
        if ":" not in cmd_name:
            return super().get_command(ctx, cmd_name)
        holder = typer.Typer(add_completion=False)
        holder.command(cmd_name)(_command(cmd_name, f"Train with the algorithm at {cmd_name}."))
        return as_command(holder)


train_app = typer.Typer(
    cls=_TrainGroup,
    no_args_is_help=True,
    help="Train an agent with one algorithm, or with your own (module:NAME); look at training runs.",
)


def _command(algorithm: str, summary: str) -> Callable[..., None]:
    def command(
        config_path: Annotated[Path, typer.Option("--config", help="The configuration file.")] = Path(
            "upturn.toml"
        ),
        resume: Annotated[str | None, typer.Option(help="Go on with a run: its folder, or 'latest'.")] = None,
        dry_run: Annotated[
            bool, typer.Option("--dry-run", help="Print what would be done and what it would take, do nothing.")
        ] = False,
        as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
    ) -> None:
        if dry_run and resume is not None:
            raise ConfigError([f"--resume {resume} has no effect with --dry-run; take one away"])
        if dry_run:
            if not _is_first():
                return
            _plan(algorithm, config_path, as_json=as_json)
        else:
            _train(algorithm, config_path, resume, as_json=as_json)

    command.__doc__ = f"""{summary}

    The agent is evaluated on held-out tasks before and after. Everything lies in runs/<id>/: card.md, summary.json,
    config.json, the training run with its curves (training/{run_name(algorithm)}/report.html), the pool, the new
    version.
    """
    return command


for _name, _registered in ALGORITHMS.items():
    train_app.command(_name)(_command(_name, _registered.summary))


def _configured(config_path: Path, algorithm: str) -> "Config":
    import_beside(config_path)
    return load_full_config(config_path, os.environ, *([algorithm] if ":" in algorithm else []))


def _plan(algorithm: str, config_path: Path, *, as_json: bool) -> None:
    from upturn.config import keys_in

    config = _configured(config_path, algorithm)
    with LiveView(f"Upturn train {algorithm}: what it would take") as view, TemporaryDirectory() as folder:
        from upturn.loop.rollouts import check_sampler
        from upturn.loop.run import open_run
        from upturn.loop.trainers import algorithm as algorithm_of
        from upturn.loop.trainers import check, trained_incumbent, with_copied_pool

        check(config, algorithm)
        entry, place = algorithm_of(algorithm), Path(folder) / "plan"
        looked_at = with_copied_pool(config, Path(folder), is_read="pool" in entry.uses)
        command, keys = f"train {algorithm} --dry-run", keys_in(config, os.environ)
        with open_run(looked_at, place, command, view, api_keys=keys) as opened:
            context = replace(opened, config=config)  # messages name the pool that is meant
            try:
                check_sampler(context)
            except (ClusterError, ModelError) as exc:
                view.note(f"a run would not begin now: {exc}")
            plan = entry.plan(context, trained_incumbent(context))
    details = {"algorithm": algorithm, "learns_from": plan.learns_from, "basis": plan.basis}
    settings = config.to_dict()
    emit(
        f"train {algorithm}",
        plan.results(),
        details | ({"settings": settings} if as_json else {}),
        as_json=as_json,
        config_hash=config.config_hash,
    )


def _train(algorithm: str, config_path: Path, resume: str | None, *, as_json: bool) -> None:
    from upturn.config import keys_in
    from upturn.loop.trainers import lead_ranks, refuse_together

    world = leading_world()
    config = _configured(config_path, algorithm)
    if world is not None:
        refuse_together(config, algorithm)
    with LiveView(f"Upturn train {algorithm}") as view:
        from upturn.cli.run_report import write_summary
        from upturn.loop.run import choose_run, open_run
        from upturn.loop.trainers import check, run_training, write_card

        check(config, algorithm)
        name = f"train-{run_name(algorithm)}"
        run_dir = choose_run(Path(config.run.directory), name, resume)
        again = ["upturn", "train", algorithm, "--config", str(config_path), "--resume", str(run_dir)]
        with (
            resumable(shlex.join(started_again(world, again))),
            lead_ranks(world),
            open_run(config, run_dir, name, view, api_keys=keys_in(config, os.environ), world=world) as context,
        ):
            taught = run_training(context, algorithm)
            card = write_card(context, taught)
            context.finish()
    results = taught.results()
    details = {"run": str(run_dir), "made": taught.candidate.id, "card": card}
    write_summary(run_dir, f"train {algorithm}", results, details, config_hash=config.config_hash)
    emit(f"train {algorithm}", results, details, as_json=as_json, config_hash=config.config_hash)


def _is_first() -> bool:
    """False in the further processes that a launcher started; one is enough to say what would be done."""
    from upturn.training.distributed import world_from_environment

    world = world_from_environment()
    return world is None or world.is_first


@train_app.command("report")
def report(
    run_dir: Annotated[
        Path, typer.Argument(help="Folder of a training run, or of a demo or loop run with training runs within.")
    ],
    watch: Annotated[
        float | None,
        typer.Option(
            min=1,
            help="Write the pages anew every so many seconds, until all runs have ended; in a browser they reload "
            "themselves.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
) -> None:
    """Writes report.html into the folder: curves, why it stopped, which weights are kept.

    Works at any time: after a run, while it is under way, and after an interruption.
    """
    written = _write_pages(run_dir, watch)
    if watch is not None and not written.is_over:
        page, *_ = written.pages.values()
        typer.echo(f"{page} is written anew every {watch:g} s until the run has ended; Ctrl-C stops it", err=True)
    while watch is not None and not written.is_over:
        time.sleep(watch)
        written = _write_pages(run_dir, watch)
    emit("train report", written.results, {"pages": written.pages}, as_json=as_json)


class _Written(NamedTuple):
    """What became of the pages of a folder."""

    results: list[Result]
    pages: dict[str, str]
    """Path by the run's name."""
    is_over: bool
    """True: all of the training runs have ended."""


def _write_pages(run_dir: Path, reload_seconds: float | None) -> _Written:
    from upturn.report.training import read_training, write_training_report
    from upturn.training.runs import CURVE_FILE, DESCRIPTION_FILE

    folders = sorted(path.parent for path in run_dir.rglob(DESCRIPTION_FILE))
    if not folders:
        raise TrainingError(
            f"there is no training run in {str(run_dir)!r}: none of its folders holds {DESCRIPTION_FILE}; name a "
            "folder such as runs/<id>/training/<name>, or a whole run's"
        )
    results, pages, is_over = list[Result](), dict[str, str](), True
    for folder in folders:
        name = folder.relative_to(run_dir).as_posix() if folder != run_dir else folder.resolve().name
        found = read_training(folder)
        units = found.points[-1].units if found.points else 0
        if found.outcome is not None and units < found.outcome.units:
            curve = folder / CURVE_FILE
            left = f"ends after {units} of" if curve.exists() else "is missing, with"
            raise TrainingError(
                f"the curve {str(curve)!r} {left} the {found.outcome.units} {found.description.plan.unit}s that "
                "the run did before it ended; restore the file"
            )
        pages[name] = str(write_training_report(folder, reload_seconds=reload_seconds))
        results.append(Result(f"{name}: {found.description.plan.unit}s", float(units)))
        if found.outcome is None:
            is_over = False
        else:
            results.append(Result(f"{name}: stopped", found.outcome.stopped))
    return _Written(results, pages, is_over)
