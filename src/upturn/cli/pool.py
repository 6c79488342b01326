"""``upturn pool``: statistics, readiness, validation and export of a pool."""

import os
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from io import TextIOWrapper
from pathlib import Path
from time import time
from typing import Annotated, TextIO

import typer

from upturn.cli.options import POOL_PATH, AllTenants, AsJson, Families, PoolPath, Tenant
from upturn.cli.output import emit, print_message, show_table
from upturn.config import ReadinessConfig, TrafficConfig, traffic_metrics
from upturn.errors import StoreError
from upturn.pool import (
    ALL_TENANTS,
    POOL_ENDINGS,
    Experience,
    Pool,
    Selection,
    copy_pool,
    counts,
    coverage,
    export,
    inspect,
    integrity_problems,
    ledger_problems,
    missing_reward,
    readiness,
    statistics,
)
from upturn.pool.traffic import read_episodes
from upturn.records import Result, fields_json

pool_app = typer.Typer()

_MAX_FAILURES_SHOWN = 20
_NANO = {"name": "nano", "kind": "local_model", "model": "nano"}
"""The agent that would be trained, without a configuration."""


@pool_app.command("stats")
def stats(
    *,
    pool: PoolPath = POOL_PATH,
    tenant: Tenant = "default",
    all_tenants: AllTenants = False,
    family: Families = None,
    as_json: AsJson = False,
) -> None:
    """Show statistics: trajectories, outcomes, turns, tool use, pass^k, zero-variance groups and coverage; success
    by agent version and family.
    """
    scope = ALL_TENANTS if all_tenants else tenant
    with Pool.open(pool, read_only=True) as opened:
        summary = statistics(opened, tenant=scope, selection=Selection(families=tuple(family or ())))
        stored = counts(opened, tenant=scope)
        covered = coverage(opened, tenant=scope)
    results = [
        Result(f"coverage_{name}", share.value, n=share.whole)
        for name, share in covered._asdict().items()
        if share.whole
    ]
    details = {
        "tenant": "all" if all_tenants else tenant,
        "records": stored._asdict(),
        "agents": [entry._asdict() for entry in summary.agents],
        "families": [entry._asdict() for entry in summary.families],
        "success_histograms": summary.histograms,
    }
    emit("pool stats", [*summary.results(), *results], details, as_json=as_json)


@pool_app.command("ready")
def ready(
    *,
    pool: PoolPath = POOL_PATH,
    tenant: Tenant = "default",
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            help="Configuration file with thresholds, the rewards of traffic and the agent to train. Default: "
            "production thresholds and nano.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check the prerequisites of training, and which algorithms can train on the gateway's traffic, and why not
    the others. Exits with 1 if a prerequisite fails.
    """
    from upturn.loop.trainers import load_full_config, parse_full_config
    from upturn.loop.trainers.traffic import survey_pool

    loaded = None if config is None else load_full_config(config, os.environ)
    thresholds = ReadinessConfig() if loaded is None else loaded.readiness
    trained = loaded or parse_full_config({"agents": [_NANO]})
    trained = replace(trained, pool=replace(trained.pool, path=str(pool), tenant=tenant))
    with Pool.open(pool, read_only=True) as opened:
        metrics = traffic_metrics(trained.traffic or TrafficConfig(), trained.gateway.metrics)
        episodes = read_episodes(opened, metrics, tenant=tenant)
        rewards = {
            member.trajectory_id: member.reward.value for member in episodes if member.reward.value is not None
        }
        report = readiness(opened, thresholds, tenant=tenant, rewards=rewards)
        ways = survey_pool(opened, trained)
    advice = {check.name: check.advice for check in report.checks if not check.holds}
    details = {"tenant": tenant, "advice": advice, "failed_gates": report.survey.failed_gates}
    if as_json:
        details["traffic"] = {way.name: way._asdict() for way in ways}
    config_hash = "" if loaded is None else loaded.config_hash
    emit("pool ready", report.results(), details, as_json=as_json, config_hash=config_hash)
    if ways and not as_json:
        rows = [(f"train {way.name}", "no" if way.refusal else "yes", f"{way.number} {way.unit}") for way in ways]
        show_table("training on the gateway's traffic", ("command", "possible", "data"), rows)
        for way in ways:
            if why := way.refusal or (way.omissions and f"omitted: {way.omissions}"):
                typer.echo(f"train {way.name}: {why}")
    if not report.is_ready:
        print_message(f"not ready: {len(advice)} of {len(report.checks)} prerequisites failed")
        raise typer.Exit(1)


@pool_app.command("calls")
def calls(*, pool: PoolPath = POOL_PATH, tenant: Tenant = "default", as_json: AsJson = False) -> None:
    """Show what share of the model calls of each program goes on with an earlier call's tokens, so that a whole
    conversation is one training row; with the causes of the others and their cures.
    """
    from upturn.agents.program import ContinuityCounter

    by_agent = defaultdict[str, ContinuityCounter](ContinuityCounter)
    with Pool.open(pool, read_only=True) as opened:
        for experience in opened.experiences(tenant=tenant):
            agent, _, _ = experience.trajectory.agent_version.partition("@")
            by_agent[agent].add(experience.trajectory)
    measured = {agent: counter.result() for agent, counter in sorted(by_agent.items())}
    programs = {agent: counted for agent, counted in measured.items() if counted.calls}
    results = [
        Result(f"continued_calls {agent}", counted.share or 0.0, "share", n=counted.calls)
        for agent, counted in programs.items()
    ]
    details = {
        agent: {
            "attempts": counted.attempts,
            "undelivered": counted.undelivered,
            "causes": {name: cause._asdict() for name, cause in counted.causes.items()},
        }
        for agent, counted in programs.items()
    }
    emit("pool calls", results, {"programs": details} if as_json else {}, as_json=as_json)
    if as_json:
        return
    if not programs:
        print_message("no trajectory in the pool is of a program with a local model")
    for agent, counted in programs.items():
        for name, cause in counted.causes.items():
            typer.echo(f"{agent}: {cause.calls} calls began a row ({name}): {cause.cure}")
            if cause.example:
                typer.echo(f"  for example: {cause.example}")
        if counted.undelivered:
            typer.echo(f"{agent}: {counted.undelivered} answers reached no program, and are not trained")


@pool_app.command("copy")
def copy(
    *,
    pool: PoolPath = POOL_PATH,
    out: Annotated[Path, typer.Option("--out", help="File of the copy; it must not exist.")],
    as_json: AsJson = False,
) -> None:
    """Copy a pool, also while a gateway writes it, for example to train on the copy."""
    copy_pool(pool, out)
    with Pool.open(out, read_only=True) as opened:
        stored = counts(opened, tenant=ALL_TENANTS)
    emit("pool copy", [], {"file": str(out), "records": stored._asdict()}, as_json=as_json)


@pool_app.command("seal")
def seal(
    *,
    pool: PoolPath = POOL_PATH,
    tenant: Tenant = "default",
    all_tenants: AllTenants = False,
    idle_hours: Annotated[
        float, typer.Option("--idle-hours", min=0, help="Hours since the last call of an episode.")
    ] = 24.0,
    as_json: AsJson = False,
) -> None:
    """Seal the gateway's episodes that had no call for some time, so that they can be trained on.

    Later calls of these episodes are refused. Seal in a copy of the pool (`upturn pool copy`) where they should not
    be; a pool that a running gateway writes is refused.
    """
    from upturn.loop.online import seal_idle

    scope = ALL_TENANTS if all_tenants else tenant
    with Pool.open(pool) as opened:
        done = seal_idle(opened, tenant=scope, before=time() - idle_hours * 3_600)
    results = [Result("sealed", float(done.sealed), "episodes"), Result("deleted", float(done.deleted), "episodes")]
    emit("pool seal", results, {"tenant": "all" if all_tenants else tenant}, as_json=as_json)


@pool_app.command("tasks")
def tasks(
    *,
    pool: PoolPath = POOL_PATH,
    tenant: Tenant = "default",
    out: Annotated[Path, typer.Option("--out", help="File to write, for tasks.file.")],
    environment: Annotated[
        str, typer.Option("--environment", help="Name or import path (module:kit) of the environment.")
    ] = "office",
    episodes: Annotated[
        bool, typer.Option("--episodes", help="Also the first messages of the gateway's sealed episodes, as tasks.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write stored tasks that the environment can begin again, for on-policy training (tasks.file).

    A quarter of them are held out. Exits with 1 if there are fewer than two.
    """
    from upturn.environments import resolve_kit
    from upturn.loop.trainers.traffic import find_tasks, split_tasks

    kit = resolve_kit(environment)
    with Pool.open(pool, read_only=True) as opened:
        replayable = find_tasks(opened, kit, tenant=tenant, has_episodes=episodes)
    if replayable.refusal:
        raise StoreError(replayable.refusal)
    chosen = split_tasks(replayable.tasks)
    with _open_output(out, pool) as target:
        target.writelines(fields_json(task) + "\n" for task in chosen)
    count = sum(task.split == "heldout" for task in chosen)
    results = [
        Result("training", float(len(chosen) - count), "tasks"),
        Result("held_out", float(count), "tasks"),
        *(Result(name, float(number), "tasks") for name, number in replayable.left_out.items()),
    ]
    emit("pool tasks", results, {"file": str(out), "tenant": tenant, "environment": kit.name}, as_json=as_json)


@pool_app.command("validate")
def validate(
    *,
    pool: PoolPath = POOL_PATH,
    tenant: Tenant = "default",
    all_tenants: AllTenants = False,
    as_json: AsJson = False,
) -> None:
    """Check the file's integrity, its records against their digests, and every trajectory's quality gates.

    Exits with 1 if the file is damaged, or a record was changed or deleted after it was stored.
    """
    failed: Counter[str] = Counter()
    first_failures: list[dict[str, str]] = []
    points = clean = 0
    with Pool.open(pool, read_only=True) as opened:
        damage = integrity_problems(opened.engine)
        changes = [] if damage else list(ledger_problems(opened.engine))
        scope = ALL_TENANTS if all_tenants else tenant
        for experience in () if damage or changes else opened.experiences(tenant=scope):
            inspected = inspect(experience)
            gates = [gate for gate in inspected.gates if not gate.is_passed]
            points += 1
            clean += not gates
            failed.update(gate.name for gate in gates)
            if gates and len(first_failures) < _MAX_FAILURES_SHOWN:
                first_failures.append({"trajectory": inspected.trajectory_id, gates[0].name: gates[0].detail})
    results = [
        Result("integrity_problems", float(len(damage)), bar="<= 0", holds=not damage),
        Result("changed_records", float(len(changes)), bar="<= 0", holds=not changes),
        Result("points", float(points)),
        Result("clean_points", float(clean)),
        *([Result("clean_share", clean / points, n=points)] if points else []),
    ]
    details = {
        "failed_gates": dict(sorted(failed.items())),
        "first_failures": first_failures,
        "integrity": damage,
        "changes": changes[:_MAX_FAILURES_SHOWN],
    }
    emit("pool validate", results, details, as_json=as_json)
    if damage:
        print_message("the file is damaged; restore a backup, or export what can still be read")
    if changes:
        print_message("records were changed or deleted after they were stored; restore a backup of the file")
    if damage or changes:
        raise typer.Exit(1)


@pool_app.command("show")
def show(
    record_id: Annotated[str, typer.Argument(help="Id of a task, trajectory or decision.")],
    *,
    pool: PoolPath = POOL_PATH,
    tenant: Tenant = "default",
    all_tenants: AllTenants = False,
    as_json: AsJson = False,
) -> None:
    """Show the trajectories of a task: outcome, verdict, gates, reward, and why a reward is missing."""
    scope = ALL_TENANTS if all_tenants else tenant
    with Pool.open(pool, read_only=True) as opened:
        ids = opened.trajectory_ids(record_id, tenant=scope)
        experiences = list(opened.experiences_of(ids, tenant=scope, has_tokens=False))
    if not experiences:
        raise StoreError(
            f"{str(pool)!r} has no trajectory of {record_id!r} for tenant {tenant!r}; give the id of a task, "
            "trajectory or decision ('upturn pool validate' and 'upturn pool export' list them), or --all-tenants"
        )
    rewarded = sum(not missing_reward(experience) for experience in experiences)
    results = [Result("trajectories", float(len(experiences))), Result("rewarded", float(rewarded))]
    shown = {experience.trajectory.id: _described(experience) for experience in experiences}
    emit("pool show", results, {"trajectories": shown}, as_json=as_json)


def _described(experience: Experience) -> dict[str, object]:
    """One trajectory, for people and for --json."""
    task, trajectory, evaluation = experience
    problem = missing_reward(experience)
    described: dict[str, object] = {
        "task": task.id,
        "family": task.family,
        "agent": trajectory.agent_version,
        "outcome": trajectory.outcome,
        "turns": len(trajectory.turns),
        "reward": None if problem or evaluation is None else evaluation.score,
    }
    if problem:
        described["no_reward"] = problem
    if evaluation is not None:
        described["evaluator"], described["verdict"] = evaluation.evaluator, evaluation.verdict
        described["components"] = dict(evaluation.rewards)
        described["failed_gates"] = {gate.name: gate.detail for gate in evaluation.gates if not gate.is_passed}
    return described


@pool_app.command("export")
def export_records(
    *,
    pool: PoolPath = POOL_PATH,
    tenant: Tenant = "default",
    out: Annotated[Path | None, typer.Option("--out", help="File to write. Default: standard output.")] = None,
    family: Families = None,
    raw: Annotated[bool, typer.Option("--raw", help="Do not anonymise.")] = False,
    as_json: AsJson = False,
) -> None:
    """Export a tenant's records as JSON lines, anonymised unless --raw is set."""
    if as_json and out is None:
        raise typer.BadParameter("--json prints one object on standard output; set --out for the records")
    selection = Selection(families=tuple(family or ()))
    lines = changed = 0
    with Pool.open(pool, read_only=True) as opened, _open_output(out, pool) as target:
        for exported in export(opened, tenant=tenant, selection=selection, is_anonymised=not raw):
            target.write(exported.line + "\n")
            lines += 1
            changed += exported.is_changed
    if out is None:
        print_message(f"{lines} records written, {changed} of them anonymised")
        return
    results = [Result("records", float(lines)), Result("anonymised", float(changed), "records")]
    emit("pool export", results, {"file": str(out), "tenant": tenant, "is_raw": raw}, as_json=as_json)


@contextmanager
def _open_output(path: Path | None, pool: Path) -> Iterator[TextIO]:
    """The file to write to, which appears when the block ends without error; None = standard output.

    Raises BadParameter for a file that cannot be written, or that belongs to the pool.
    """
    if path is None:
        if isinstance(sys.stdout, TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8")  # of records, for any terminal
        yield sys.stdout
        return
    path = Path(os.path.realpath(path))  # unlike Path.resolve, it accepts circular links
    pool_files = {
        file.with_name(file.name + ending)
        for file in (pool.absolute(), Path(os.path.realpath(pool)))
        for ending in ("", *POOL_ENDINGS)
    }
    if path in pool_files:
        raise typer.BadParameter(f"--out {str(path)!r} belongs to the pool and would destroy it; name another file")
    # An existing file stays until the new one is complete; devices and pipes are written directly.
    is_replaced = not path.exists() or path.is_file()
    target = path.with_name(f"{path.name}.{os.getpid()}.part") if is_replaced else path
    try:
        file = target.open("w", encoding="utf-8")
    except OSError as exc:
        raise typer.BadParameter(f"--out {str(path)!r} cannot be written: {exc.strerror}") from exc
    try:
        with file:
            yield file
        if is_replaced:
            target.replace(path)
    except OSError as exc:
        exc.filename = exc.filename or str(path)  # missing for a full disk
        raise
    finally:
        if is_replaced:
            target.unlink(missing_ok=True)
