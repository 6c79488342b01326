"""``python -m benchmarks program``: tokens, speed and troubles of programs as agents."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.commands.options import AsJson, Only, Quick, Threads, emit_and_exit
from upturn.cli import print_message
from upturn.threads import usable_cores


def bench_program(  # a command's parameters are its options
    *,
    reps: Annotated[int, typer.Option(min=1, help="Repetitions per figure.")] = 3,
    only: Only = None,
    threads: Threads = None,
    litellm: Annotated[
        Path | None,
        typer.Option(help="Executable of LiteLLM's proxy, to compare with. Default: its upstream alone."),
    ] = None,
    quick: Quick = False,
    as_json: AsJson = False,
) -> None:
    """Compare programs as agents with ordinary agents, with the engine alone, and with other servers.

    It takes half an hour on two free cores.
    """
    from benchmarks.measurement import check_names, combine
    from benchmarks.program.measure import MEASUREMENTS
    from benchmarks.program.plan import QUICK, Plan
    from upturn.training.optimisation import torch_threads

    check_names(only or (), MEASUREMENTS)
    count = threads or usable_cores()
    plan = replace(QUICK if quick else Plan(repetitions=reps), litellm=litellm, threads=count, log=print_message)
    chosen = [name for name in MEASUREMENTS if not only or name in only]
    with torch_threads(count):
        results, details = combine({name: MEASUREMENTS[name](plan) for name in chosen})
    emit_and_exit("program", results, {"threads": count, "parallel": plan.parallel, **details}, as_json=as_json)
