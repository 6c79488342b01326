"""``python -m benchmarks best-agent``: tasks until the better of two agents is identified."""

from typing import Annotated

import typer

from benchmarks.commands.options import AsJson, Quick, emit_and_exit
from upturn.cli import progress


def bench_best_agent(
    runs: Annotated[int, typer.Option(min=20, help="Simulated experiments per pair of agents.")] = 2_000,
    seed: Annotated[int, typer.Option(help="Seed of the simulation.")] = 0,
    quick: Quick = False,
    as_json: AsJson = False,
) -> None:
    """Simulate experiments between two agents, stopped by our rule and by TensorZero's.

    With 2,000 runs it takes about a minute.
    """
    from benchmarks.routing.best_agent import EQUAL, PAIRS, measure_best_agent
    from upturn.deployment.best_agent_simulation import MAX_TASKS

    runs, max_tasks = (40, 200) if quick else (runs, MAX_TASKS)
    with progress("experiments", len(PAIRS) + len(EQUAL)) as ticker:
        results = measure_best_agent(
            runs=runs, seed=seed, max_tasks=max_tasks, has_bars=not quick, on_done=ticker.advance
        )
    emit_and_exit("best-agent", results, {"runs": runs, "max_tasks": max_tasks, "seed": seed}, as_json=as_json)
