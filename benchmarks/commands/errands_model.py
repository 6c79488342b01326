"""``python -m benchmarks errands-model``: builds the model of the world errands."""

from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from benchmarks.commands.options import AsJson
from upturn.cli import LiveView, emit, resume_hint
from upturn.records import Result


def build_errands_model(  # noqa: PLR0917  # a command's parameters are its options
    work: Annotated[
        Path, typer.Option(help="Folder for checkpoints; an interrupted build resumes from it.")
    ] = Path("build/nano-errands"),
    output: Annotated[
        Path | None, typer.Option(help="Folder of the model; omit for its folder in benchmarks/errands.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the initial weights.")] = 0,
    threads: Annotated[int, typer.Option(min=1, help="Threads of torch; other numbers give other weights.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Build the model of errands from nothing: tokenizer, pre-training on demonstrations, evaluation, card."""
    command = f"python -m benchmarks errands-model --work {quote(str(work))} --threads {threads}"
    with LiveView("Build the model nano-errands") as view, resume_hint(command):
        from benchmarks.errands import MODEL
        from benchmarks.errands.pretraining import ERRANDS
        from upturn.loop import build_model

        target = output or Path(MODEL)
        card = build_model(ERRANDS, work, target, seed=seed, threads=threads, progress=view)
    results = [
        Result(f"{name}_success", figure["value"], "share", figure["low"], figure["high"], figure["n"])
        for name, figure in card.heldout.items()
    ]
    emit("benchmarks errands-model", results, {"folder": str(target)}, as_json=as_json)
