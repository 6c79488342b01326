"""``upturn model``: the models that ship with the package, and how they are built."""

import json
from pathlib import Path
from typing import Annotated

import typer

from upturn.cli.live import LiveView
from upturn.cli.output import emit, resumable
from upturn.errors import ModelError, UnknownNameError
from upturn.models import CARD, SHIPPED, rebuild_hint
from upturn.records import Result

model_app = typer.Typer(no_args_is_help=True, help="The models that ship with Upturn: facts, rebuilding.")


_Name = Annotated[str, typer.Argument(help=f"A shipped model: {' or '.join(SHIPPED)}.")]


@model_app.command("info")
def info(
    name: _Name = "nano",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
) -> None:
    """What a shipped model is, how it was made and what it can do; checks that its files are whole."""
    from upturn.models import load_local

    folder = _folder(name)
    local = load_local(name)
    card = json.loads((folder / CARD).read_text())
    try:
        heldout_results = [
            Result(f"{heldout}_success", float(found["value"]), "share", found["low"], found["high"], found["n"])
            for heldout, found in card["heldout"].items()
        ]
    except (KeyError, TypeError, AttributeError) as exc:
        where = str(folder / CARD)
        raise ModelError(f"model {name!r}: {where!r} is damaged: no {exc}; {rebuild_hint(name)}") from exc
    size = sum(file.stat().st_size for file in folder.iterdir())
    results = [
        Result("parameters", float(local.model.num_parameters()), bar="1e6 to 3e6"),
        Result("package_bytes", float(size), "bytes", bar="<= 8000000", holds=size <= 8_000_000),
        *heldout_results,
    ]
    emit("model info", results, {"folder": str(folder), "card": card}, as_json=as_json)


@model_app.command("build-nano")
def build_nano(  # noqa: PLR0917  # one parameter per option
    name: _Name = "nano",
    work: Annotated[
        Path | None, typer.Option(help="Folder for checkpoints; building resumes from it. Left out = build/NAME.")
    ] = None,
    output: Annotated[Path | None, typer.Option(help="Where the model goes; left out = into the package.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the initial weights.")] = 0,
    threads: Annotated[int, typer.Option(min=1, help="Of torch; part of what makes a build repeatable.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
) -> None:
    """Builds a shipped model from nothing: tokenizer, pre-training on demonstrations, held-out evaluation, card."""
    target, place = output or _folder(name), work or Path("build") / name
    command = f"upturn model build-nano {name} --work {place} --threads {threads}"
    with LiveView(f"Build the model {name}") as view, resumable(command):
        from upturn.loop import build
        from upturn.training.pretraining import find_recipe

        card = build(find_recipe(name), place, target, seed=seed, threads=threads, progress=view)
    results = [
        Result(f"{heldout}_success", found["value"], "share", found["low"], found["high"], found["n"])
        for heldout, found in card.heldout.items()
    ]
    emit("model build-nano", results, {"folder": str(target)}, as_json=as_json)


def _folder(name: str) -> Path:
    if name not in SHIPPED:
        raise UnknownNameError(f"no model {name!r} ships with Upturn; known: {', '.join(SHIPPED)}")
    return SHIPPED[name]
