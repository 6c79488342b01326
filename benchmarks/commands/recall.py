"""``python -m benchmarks recall``: whether examples of similar successes help an agent."""

from typing import Annotated

import typer

from benchmarks.commands.options import AsJson, Quick, emit_and_exit
from upturn.cli import progress


def bench_recall(
    *,
    families: Annotated[
        str, typer.Option(help="known: those that nano is pre-trained on; other: those of which it does a part.")
    ] = "known",
    stored: Annotated[int, typer.Option(min=1, help="Training tasks whose solutions are recalled from.")] = 340,
    heldout: Annotated[int, typer.Option(min=1, help="Held-out tasks.")] = 102,
    quick: Quick = False,
    as_json: AsJson = False,
) -> None:
    """Evaluate nano with 0, 1 and 3 examples in the prompt, on the same held-out tasks of the office."""
    from benchmarks.recall import measure_recall
    from upturn.loop.demo.plan import RULES_PARTLY
    from upturn.training.pretraining import OFFICE

    kinds = {"known": OFFICE.families, "other": RULES_PARTLY}
    if families not in kinds:
        raise typer.BadParameter(f"--families {families!r} is unknown; known: {', '.join(kinds)}")
    numbers, stored, heldout = ((1,), 8, 4) if quick else ((1, 3), stored, heldout)
    with progress("evaluations", 1 + len(numbers)) as ticker:
        results = measure_recall(
            kinds[families], stored=stored, heldout=heldout, numbers=numbers, on_done=ticker.advance
        )
    emit_and_exit("recall", results, {"families": families, "stored": stored, "heldout": heldout}, as_json=as_json)
