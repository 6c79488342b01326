"""``upturn model``: the model that ships with the package, and how it is built."""

import json
from pathlib import Path
from typing import Annotated

import typer

from upturn.cli.live import LiveView
from upturn.cli.output import emit, resumable
from upturn.errors import ModelError
from upturn.models.nano import CARD, NANO_FOLDER, REBUILD, model_folder
from upturn.records import Result

model_app = typer.Typer(no_args_is_help=True, help="The model that ships with Upturn: facts, rebuilding.")


@model_app.command("info")
def info(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
) -> None:
    """What the shipped model is, how it was made and what it can do; checks that its files are whole."""
    from upturn.models.nano import load_local

    local = load_local("nano")
    card = json.loads((NANO_FOLDER / CARD).read_text())
    try:
        exams = [
            Result(f"{name}_success", float(exam["value"]), "share", exam["low"], exam["high"], exam["n"])
            for name, exam in card["heldout"].items()
        ]
    except (KeyError, TypeError, AttributeError) as exc:
        raise ModelError(f"model 'nano': {str(NANO_FOLDER / CARD)!r} is damaged: no {exc}; {REBUILD}") from exc
    size = sum(file.stat().st_size for file in NANO_FOLDER.iterdir())
    results = [
        Result("parameters", float(local.model.num_parameters()), bar="1e6 to 3e6"),
        Result("package_bytes", float(size), "bytes", bar="<= 8000000", holds=size <= 8_000_000),
        *exams,
    ]
    emit("model info", results, {"folder": str(NANO_FOLDER), "card": card}, as_json=as_json)


@model_app.command("build-nano")
def build_nano(  # noqa: PLR0917  # one parameter per option
    work: Annotated[Path, typer.Option(help="Folder for checkpoints; building resumes from it.")] = Path(
        "build/nano"
    ),
    output: Annotated[Path | None, typer.Option(help="Where the model goes; left out = into the package.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the initial weights.")] = 0,
    threads: Annotated[int, typer.Option(min=1, help="Of torch; part of what makes a build repeatable.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
) -> None:
    """Builds the nano model from nothing: tokenizer, pre-training on demonstrations, exam, card."""
    target = output or model_folder("nano")
    with LiveView("Build the nano model") as view, resumable(f"upturn model build-nano --work {work}"):
        from upturn.loop.nano import build

        card = build(work, target, seed=seed, threads=threads, progress=view)
    results = [
        Result(f"{name}_success", found["value"], "share", found["low"], found["high"], found["n"])
        for name, found in card.heldout.items()
    ]
    emit("model build-nano", results, {"folder": str(target)}, as_json=as_json)
