"""``upturn train``: training runs by themselves."""

from pathlib import Path
from typing import Annotated

import typer

from upturn.cli.output import emit
from upturn.errors import TrainingError
from upturn.records import Result

train_app = typer.Typer(no_args_is_help=True, help="Look at training runs.")


@train_app.callback()
def _train() -> None:
    """Keeps ``report`` a command of its own while it is the only one."""


@train_app.command("report")
def report(
    run_dir: Annotated[
        Path, typer.Argument(help="Folder of a training run, or of a demo or loop run with training runs within.")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
) -> None:
    """Writes report.html into the folder: curves, why it stopped, which weights are kept.

    Works at any time: after a run, while it is under way, and after an interruption.
    """
    from upturn.report.training import read_training, write_training_report
    from upturn.training.place import CURVE_FILE, DESCRIPTION_FILE

    folders = sorted(path.parent for path in run_dir.rglob(DESCRIPTION_FILE))
    if not folders:
        raise TrainingError(
            f"there is no training run in {str(run_dir)!r}: none of its folders holds {DESCRIPTION_FILE}; name a "
            "folder such as runs/<id>/training/<name>, or a whole run's"
        )
    results, pages = [], {}
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
        pages[name] = str(write_training_report(folder))
        results.append(Result(f"{name}: {found.description.plan.unit}s", float(units)))
        if found.outcome is not None:
            results.append(Result(f"{name}: stopped", found.outcome.stopped))
    emit("train report", results, {"pages": pages}, as_json=as_json)
