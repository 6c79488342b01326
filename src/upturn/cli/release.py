"""``upturn release``: lists, starts, shows and controls the releases in a pool.

Every change is one stored state of the release; the pool keeps the earlier ones. A loop that has the pool open
applies it before its next wave of tasks.
"""

from collections.abc import Callable
from pathlib import Path
from time import time
from typing import Annotated

import typer

from upturn.cli.options import POOL_PATH, AsJson, PoolPath, read_config
from upturn.cli.output import emit, progress
from upturn.config import CanarySettings, TaskConfig, ValidationSettings
from upturn.deployment import (
    EXPERIMENTS,
    PLAN_STEPS,
    SCENARIOS,
    BestAgentRule,
    HeldoutDesign,
    Override,
    ReleaseDesign,
    Validation,
    best_agent_results,
    candidate_share,
    deploy_improved_agent,
    find_release,
    grid,
    plan_release,
    release_status,
    simulation_results,
)
from upturn.deployment import release as lifecycle
from upturn.errors import ConfigError, RecordError, ReleaseError
from upturn.interval import wilson_interval
from upturn.pool import Pool
from upturn.pool.access import record_act
from upturn.records import AdminAct, JsonValue, Release, Result, from_json

release_app = typer.Typer()

Who = Annotated[str, typer.Option("--who", help="Name of the operator; stored.")]
Why = Annotated[str, typer.Option("--why", help="Reason; stored.")]
CanaryConfig = Annotated[
    Path | None,
    typer.Option("--config", help="Configuration file, whose section canary is used. Default: default settings."),
]
ReleaseId = Annotated[str, typer.Argument(help="Id of a release, see `upturn release list`.")]


@release_app.command("list")
def list_releases(pool: PoolPath = POOL_PATH, as_json: AsJson = False) -> None:
    """List the releases with their current state, oldest first."""
    with Pool.open(pool, read_only=True) as opened:
        releases = opened.states(Release)
    emit("release list", [], {"releases": [_describe(release) for release in releases]}, as_json=as_json)


@release_app.command("status")
def status(release_id: ReleaseId, pool: PoolPath = POOL_PATH, as_json: AsJson = False) -> None:
    """Show a release: success of both arms, the evidence so far, and the reason for its state."""
    with Pool.open(pool, read_only=True) as opened:
        release = find_release(opened.states(Release), release_id)
    show_release("release status", release, as_json)


@release_app.command("start")
def start(  # noqa: PLR0913 - a command's parameters are its options
    incumbent: Annotated[str, typer.Argument(help="The serving version, agent@version.")],
    candidate: Annotated[str, typer.Argument(help="The new version, agent@version. Both are stored in the pool.")],
    *,
    pool: PoolPath = POOL_PATH,
    validation: Annotated[
        Path | None, typer.Option(help="File with a passed validation: validation.json of a run.")
    ] = None,
    skip_validation: Annotated[
        bool, typer.Option("--skip-validation", help="Start without a validation; requires --who and --why.")
    ] = False,
    who: Who = "",
    why: Why = "",
    config: CanaryConfig = None,
    as_json: AsJson = False,
) -> None:
    """Start the canary of a candidate that passed validation, or by an audited override."""
    ground, settings = _ground(validation, skip_validation, Override(who, why)), _canary_settings(config)
    with Pool.open(pool, beside=True) as opened:
        release = deploy_improved_agent(opened, incumbent, candidate, ground, settings)
    record_act(pool, AdminAct(who or "command line", "releases start", candidate, time(), "", why))
    show_release("release start", release, as_json)


def _add_command(name: str, act: Callable[[Release, Override], Release], summary: str) -> None:
    """Adds a command with which an operator changes a release."""

    @release_app.command(name, help=summary)
    def command(
        release_id: ReleaseId, *, pool: PoolPath = POOL_PATH, who: Who, why: Why, as_json: AsJson = False
    ) -> None:
        with Pool.open(pool, beside=True) as opened:
            release = opened.change(
                Release, lambda states: act(find_release(states.all(), release_id), Override(who, why))
            )
        record_act(pool, AdminAct(who, f"releases {name}", release_id, time(), "", why))
        show_release(f"release {name}", release, as_json)


_add_command("promote", lifecycle.promote, "Promote a canary's candidate.")
_add_command(
    "hold", lifecycle.hold, "Hold a canary at its stage; it continues to collect evidence and may roll back."
)
_add_command("resume", lifecycle.resume, "Resume a held canary.")
_add_command("rollback", lifecycle.rollback, "Roll back a candidate, during its canary or its watch.")


@release_app.command("simulate")
def simulate(
    *,
    runs: Annotated[int, typer.Option(min=100, help="Simulated canaries per scenario.")] = 1_000,
    seed: Annotated[int, typer.Option(help="Seed of the simulation.")] = 0,
    grid_of_attacks: Annotated[
        bool, typer.Option("--grid", help="Simulate the grid of equal, worse and unsafe candidates instead.")
    ] = False,
    best_agent: Annotated[
        bool,
        typer.Option("--best-agent", help="Simulate experiments between agents instead, until the best is shown."),
    ] = False,
    config: CanaryConfig = None,
    as_json: AsJson = False,
) -> None:
    """Simulate canaries of equal, better and worse candidates, to measure error rates and time to a verdict."""
    if best_agent:
        if grid_of_attacks or config is not None:
            raise ConfigError(["--best-agent simulates no canaries; leave out --grid and --config"])
        _simulate_best_agent(runs, seed, as_json)
        return
    settings, scenarios = _canary_settings(config), grid() if grid_of_attacks else SCENARIOS
    with progress("canaries", len(scenarios)) as ticker:
        results = simulation_results(
            settings, runs=runs, seed=seed, scenarios=scenarios, on_done=lambda _: ticker.advance()
        )
    details = {
        "stages": settings.stages,
        "threshold": settings.threshold,
        "promotion_threshold": settings.promotion_threshold(1),
        "min_candidate_tasks": settings.min_candidate_tasks,
        "max_candidate_episodes": settings.max_candidate_episodes,
        "seed": seed,
    }
    emit("release simulate", results, details, as_json=as_json)
    if any(result.holds is False for result in results):
        raise typer.Exit(1)


def _simulate_best_agent(runs: int, seed: int, as_json: bool) -> None:
    rule = BestAgentRule()
    with progress("experiments", len(EXPERIMENTS)) as ticker:
        results = best_agent_results(
            rule, runs=runs, seed=seed, experiments=EXPERIMENTS, on_done=lambda _: ticker.advance()
        )
    emit("release simulate", results, {"alpha": rule.alpha, "margin": rule.margin, "seed": seed}, as_json=as_json)
    if any(result.holds is False for result in results):
        raise typer.Exit(1)


@release_app.command("plan")
def plan(  # noqa: PLR0913 - a command's parameters are its options
    *,
    tasks_per_day: Annotated[float, typer.Option(min=0.001, help="Tasks of the agent per day, both arms.")] = 1_000,
    baseline: Annotated[float, typer.Option(min=0, max=1, help="Success rate of the serving version.")] = 0.7,
    effect: Annotated[
        float | None,
        typer.Option(help="Improvement to detect. Default: canary.minimum_effect or 0.1, at most 1 - baseline."),
    ] = None,
    families: Annotated[
        int | None, typer.Option(min=1, help="Task families. Default: those in the configuration, or 1.")
    ] = None,
    session_tasks: Annotated[int, typer.Option(min=1, help="Tasks of a session, which share a version.")] = 1,
    correlation: Annotated[
        float, typer.Option(min=0, max=0.99, help="Correlation of success within a session.")
    ] = 0.0,
    config: Annotated[
        Path | None, typer.Option("--config", help="Path of the configuration file. Default: default settings.")
    ] = None,
    runs: Annotated[int, typer.Option(min=50, help="Simulated validations and canaries of each kind.")] = 300,
    seed: Annotated[int, typer.Option(help="Seed of the simulation.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Plan a release: validation tasks, candidate tasks and days of the canary, and error rates.

    The figures are simulated with the code that decides real releases. Simulated versions succeed independently on
    the same task, so a real validation usually needs fewer tasks.
    """
    validation, canary, tasks = ValidationSettings(), CanarySettings(), TaskConfig()
    if config is not None:
        loaded = read_config(config)
        validation, canary, tasks = loaded.validation, loaded.canary, loaded.tasks
    families = families or len(tasks.train_families or tasks.families) or 1
    effect = min(canary.minimum_effect or 0.1, 1.0 - baseline) if effect is None else effect
    _check_plan(baseline, effect, session_tasks, correlation)
    heldout = HeldoutDesign((baseline,) * families, effect, session_tasks, correlation)
    design = ReleaseDesign(heldout, tasks.heldout_count, tasks_per_day)
    with progress("parts of the plan", PLAN_STEPS) as ticker:
        results = plan_release(design, validation, canary, runs=runs, seed=seed, on_done=ticker.advance)
    details = {
        "baseline": baseline,
        "effect": effect,
        "families": families,
        "tasks_per_day": tasks_per_day,
        "session_tasks": session_tasks,
        "correlation": correlation,
        "configured_tasks": tasks.heldout_count,
        "runs": runs,
        "seed": seed,
    }
    emit("release plan", results, details, as_json=as_json)


def _check_plan(baseline: float, effect: float, session_tasks: int, correlation: float) -> None:
    if not 0.0 < effect <= 1.0 - baseline:
        raise ReleaseError(
            f"--effect {effect:g} must be above 0 and at most 1 - --baseline {baseline:g} = {1 - baseline:g}"
        )
    if correlation and session_tasks == 1:
        raise ReleaseError(
            f"--correlation {correlation:g} has no effect with --session-tasks 1; set the size of a session"
        )


def _canary_settings(config: Path | None) -> CanarySettings:
    return CanarySettings() if config is None else read_config(config).canary


def _ground(validation: Path | None, skip_validation: bool, override: Override) -> Validation | Override:
    if (validation is None) == (not skip_validation):
        raise ReleaseError("a release starts with --validation FILE or with --skip-validation; set exactly one")
    if validation is None:
        return override
    if override.who or override.why:
        raise ReleaseError("--who and --why belong to --skip-validation; a passed validation needs neither")
    if not validation.is_file():
        raise ReleaseError(f"there is no validation at {str(validation)!r}; name the file of a validation")
    try:
        return from_json(Validation, validation.read_bytes())
    except RecordError as exc:
        raise ReleaseError(
            f"{str(validation)!r} holds no validation: {exc}; name the file of a validation"
        ) from exc


def _describe(release: Release) -> dict[str, JsonValue]:
    return {
        "id": release.id,
        "incumbent": release.incumbent,
        "candidate": release.candidate,
        "state": release_status(release),
        "share": candidate_share(release),
        "attempt": release.attempt,
    }


def show_release(command: str, release: Release, as_json: bool) -> None:
    """Prints a release with its evidence."""
    details: dict[str, object] = {
        "release": _describe(release),
        "validation": release.validation,
        "is_validation_skipped": release.is_validation_skipped,
        "operators": release.reason,
        "last_evidence": release.evidence[-1].reason if release.evidence else "none yet",
    }
    emit(command, _evidence(release), details, as_json=as_json)


def _evidence(release: Release) -> list[Result]:
    """Success of both arms and the evidence; empty if there is none."""
    if not release.evidence:
        return []
    last = release.evidence[-1]
    arms = (
        ("candidate_success", last.candidate_successes, last.candidate_tasks),
        ("control_success", last.control_successes, last.control_tasks),
    )
    logs = ("better", "worse", "unsafe", "safe", "harder", "less_hard", "losing", "mismatch")
    return [
        *(wilson_interval(successes, tasks).result(name) for name, successes, tasks in arms if tasks),
        *(Result(f"log_e_{name}", getattr(last, f"log_e_{name}"), "nats") for name in logs),
        Result("candidate_missing", float(last.candidate_missing), "tasks"),
        Result("control_missing", float(last.missing - last.candidate_missing), "tasks"),
        Result("repeated_outcomes", float(last.repeats), "episodes"),
    ]
