"""``upturn release simulate``: how often the canary errs and how fast it decides."""

from typing import Annotated

import typer

from upturn.cli.output import emit, progress


def simulate(
    runs: Annotated[int, typer.Option(min=100, help="Simulated canaries of each scenario.")] = 1_000,
    seed: Annotated[int, typer.Option(help="Equal seeds give equal figures.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Simulate canaries of identical, better and worse candidates with the rule that decides real ones."""
    from upturn.config import CanarySettings
    from upturn.deployment import BLOCK_TASKS, SCENARIOS, simulation_results

    settings = CanarySettings()
    with progress("canaries", len(SCENARIOS)) as ticker:
        results = simulation_results(settings, runs=runs, seed=seed, on_done=lambda _: ticker.advance())
    details = {
        "stages": settings.stages,
        "threshold": settings.threshold,
        "min_candidate_tasks": settings.min_candidate_tasks,
        "max_candidate_tasks": settings.max_candidate_tasks,
        "block_tasks": BLOCK_TASKS,
        "seed": seed,
    }
    emit("release simulate", results, details, as_json=as_json)
    if any(result.holds is False for result in results):
        raise typer.Exit(1)
