"""``upturn model``: the models that ship with the package, and how they are built."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from upturn.cli.live import LiveView
from upturn.cli.options import AsJson
from upturn.cli.output import emit, resume_hint
from upturn.errors import ModelError, UnknownNameError
from upturn.models import CARD, SHIPPED, rebuild_hint
from upturn.records import Result

model_app = typer.Typer()

_Name = Annotated[str, typer.Argument(help=f"A shipped model: {' or '.join(SHIPPED)}.")]


@model_app.command("info")
def info(name: _Name = "nano", as_json: AsJson = False) -> None:
    """Show a shipped model's card, and check its files."""
    from upturn.models import load_local

    folder = _folder(name)
    local = load_local(name)
    card = json.loads((folder / CARD).read_text())
    try:
        success = _success_results(card["heldout"])
    except (KeyError, TypeError, AttributeError) as exc:
        path = str(folder / CARD)
        raise ModelError(f"model {name!r}: {path!r} is damaged: no {exc}; {rebuild_hint(name)}") from exc
    size = sum(file.stat().st_size for file in folder.iterdir())
    results = [
        Result("parameters", float(local.model.num_parameters()), bar="1e6 to 3e6"),
        Result("package_bytes", float(size), "bytes", bar="<= 8000000", holds=size <= 8_000_000),
        *success,
    ]
    emit("model info", results, {"folder": str(folder), "card": card}, as_json=as_json)


@model_app.command("build-nano")
def build_nano(  # noqa: PLR0917  # one parameter per option
    name: _Name = "nano",
    work: Annotated[
        Path | None, typer.Option(help="Folder for checkpoints, from which a build resumes. Default: build/NAME.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="Folder for the model. Default: its folder in Upturn.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the initial weights.")] = 0,
    threads: Annotated[int, typer.Option(min=1, help="Number of torch threads; the weights depend on it.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Build a shipped model from scratch: tokenizer, pre-training on demonstrations, held-out evaluation, card."""
    target, work_folder = output or _folder(name), work or Path("build") / name
    command = f"upturn model build-nano {name} --work {work_folder} --threads {threads}"
    with LiveView(f"Build the model {name}") as view, resume_hint(command):
        from upturn.loop import build_model
        from upturn.training.pretraining import find_recipe

        card = build_model(find_recipe(name), work_folder, target, seed=seed, threads=threads, progress=view)
    emit("model build-nano", _success_results(card.heldout), {"folder": str(target)}, as_json=as_json)


def _success_results(heldout: Mapping[str, Any]) -> list[Result]:
    return [
        Result(f"{name}_success", float(figure["value"]), "share", figure["low"], figure["high"], figure["n"])
        for name, figure in heldout.items()
    ]


def _folder(name: str) -> Path:
    if name not in SHIPPED:
        raise UnknownNameError(f"no model {name!r} ships with Upturn; known: {', '.join(SHIPPED)}")
    return SHIPPED[name]
