"""``upturn train``: one way of learning by itself, and the pages of training runs."""

import os
import shlex
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, NamedTuple

import typer

from upturn.cli.import_path import import_beside
from upturn.cli.launched import leading_world, started_again
from upturn.cli.live import LiveView
from upturn.cli.output import emit, resumable
from upturn.errors import ClusterError, ConfigError, ModelError, TrainingError
from upturn.records import Result

train_app = typer.Typer(no_args_is_help=True, help="Train an agent by one way of learning; look at training runs.")

WAYS: Mapping[str, str] = {
    "sft": "Supervised training on the verified successes in a pool.",
    "grpo": "Practice: several attempts at each task, compared with each other; grpo.preset names a variant.",
    "ppo": "Practice with a critic, which learns what states are worth.",
    "dpo": "Learn from pairs in a pool: two versions at the same tasks, and what people corrected.",
    "dpo-rounds": "Practice in rounds: prefer the better of the agent's own attempts.",
    "kto": "Learn from thumbs on single attempts in a pool.",
    "rejection": "Attempt many times, train on the best distinct successes, once.",
    "iterated": "Attempt and train on the successes, in rounds.",
    "star": "As iterated from the start each time, with the answer as a hint where everything failed.",
    "self-repair": "As star, but told what went wrong instead of the answer.",
    "rft": "Reinforcement from ten to fifty tasks, with controls that say whether the gain is real.",
    "world-model": "Learn what the environment answers, from attempts in a pool, before practice.",
    "offline": "Policy optimisation on attempts in a pool, with their sampler's log-probs.",
    "mixture": "Practice with successes, pairs or thumbs from a pool in the same steps.",
}
"""Each as the list of commands tells it; ``upturn.loop.trainers.train_command`` has one lesson for each."""


def _add(algorithm: str, summary: str) -> None:
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

    The agent is examined on held-out tasks before and after. Everything lies in runs/<id>/: card.md, summary.json,
    config.json, the training run with its curves (training/{algorithm}/report.html), the pool, the new version.
    """
    train_app.command(algorithm)(command)


for _name, _summary in WAYS.items():
    _add(_name, _summary)


def _plan(algorithm: str, config_path: Path, *, as_json: bool) -> None:
    from upturn.config import keys_in, load_config

    config = load_config(config_path, os.environ)
    import_beside(config_path)
    with LiveView(f"Upturn train {algorithm}: what it would take") as view, TemporaryDirectory() as folder:
        from upturn.loop.rollouts import check_sampler
        from upturn.loop.run import open_run
        from upturn.loop.trainers import LESSONS, check, student, with_copied_pool

        check(config, algorithm)
        looked_at, place = with_copied_pool(config, algorithm, Path(folder)), Path(folder) / "plan"
        command, keys = f"train {algorithm} --dry-run", keys_in(config, os.environ)
        with open_run(looked_at, place, command, view, api_keys=keys) as context:
            context.config = config  # what is said names the pool that is meant
            try:
                check_sampler(context)
            except (ClusterError, ModelError) as exc:
                view.note(f"a run would not begin now: {exc}")
            plan = LESSONS[algorithm].plan(context, student(context))
    details = {"algorithm": algorithm, "learns_from": plan.learns_from, "basis": plan.basis}
    settings = config.model_dump(mode="json")
    emit(
        f"train {algorithm}",
        plan.results(),
        details | ({"settings": settings} if as_json else {}),
        as_json=as_json,
        config_hash=config.config_hash,
    )


def _train(algorithm: str, config_path: Path, resume: str | None, *, as_json: bool) -> None:
    from upturn.config import keys_in, load_config
    from upturn.loop.trainers import leading, refuse_together

    world = leading_world()
    config = load_config(config_path, os.environ)
    if world is not None:
        refuse_together(config, algorithm)
    import_beside(config_path)
    with LiveView(f"Upturn train {algorithm}") as view:
        from upturn.cli.run_report import write_summary
        from upturn.loop.run import chosen_run, open_run
        from upturn.loop.trainers import check, teach, write_card

        check(config, algorithm)
        name = f"train-{algorithm}"
        run_dir = chosen_run(Path(config.run.directory), name, resume)
        again = ["upturn", "train", algorithm, "--config", str(config_path), "--resume", str(run_dir)]
        with (
            resumable(shlex.join(started_again(world, again))),
            leading(world),
            open_run(config, run_dir, name, view, api_keys=keys_in(config, os.environ), world=world) as context,
        ):
            taught = teach(context, algorithm)
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
