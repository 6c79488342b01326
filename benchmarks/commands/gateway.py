"""``python -m benchmarks gateway``: speed, durability and memory of the gateway."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.commands.options import AsJson, Only, Quick, emit_and_exit
from upturn.cli import print_message


def bench_gateway(
    *,
    reps: Annotated[int, typer.Option(min=1, help="Repetitions per figure.")] = 3,
    only: Only = None,
    litellm: Annotated[
        Path | None, typer.Option(help="Executable of LiteLLM's proxy, to compare with. Default: no comparison.")
    ] = None,
    compiled: Annotated[
        Path | None,
        typer.Option(
            help="Executable of sglang-router, a compiled gateway, to compare with. Default: no comparison."
        ),
    ] = None,
    quick: Quick = False,
    as_json: AsJson = False,
) -> None:
    """Load the gateway beside a mock upstream, with every call stored durably; compare with LiteLLM's proxy.

    It takes half an hour, most of it for memory.
    """
    from benchmarks.gateway.measure import MEASUREMENTS, QUICK, Plan, details_of
    from benchmarks.measurement import check_names, combine

    check_names(only or (), MEASUREMENTS)
    plan = replace(
        QUICK if quick else Plan(repetitions=reps), litellm=litellm, compiled=compiled, log=print_message
    )
    chosen = [name for name in MEASUREMENTS if not only or name in only]
    results, details = combine({name: MEASUREMENTS[name](plan) for name in chosen})
    emit_and_exit("gateway", results, {**details_of(plan), **details}, as_json=as_json)
