"""``upturn agents``: capability profiles, operators' limits, validation and deployment of improved versions."""

from pathlib import Path
from time import time
from typing import Annotated

import typer

from upturn.cli.options import (
    POOL_PATH,
    AllTenants,
    AsJson,
    MetricsConfig,
    PoolPath,
    Tenant,
    configured_metrics,
    read_config,
)
from upturn.cli.output import emit
from upturn.cli.release import CanaryConfig, Who, Why, show_release
from upturn.config import CanarySettings, ValidationSettings, taught_metrics
from upturn.deployment import (
    CapabilityUpdate,
    Override,
    VersionChange,
    add_version,
    capability_profiles,
    deploy_improved_agent,
    release_status,
    update_agent_capabilities,
    validate_agent_performance,
)
from upturn.errors import UnknownNameError
from upturn.pool import ALL_TENANTS, Pool
from upturn.pool.access import record_act
from upturn.records import AdminAct, AgentLimits, Release, Result, to_json

agents_app = typer.Typer()

_Names = Annotated[list[str] | None, typer.Option(help="One value; repeatable.")]
Incumbent = Annotated[str, typer.Argument(help="The serving version, agent@version.")]
Candidate = Annotated[str, typer.Argument(help="The new version, agent@version. Both are stored in the pool.")]


@agents_app.command("profile")
def profile(
    agents: Annotated[list[str] | None, typer.Argument(help="Agents. Default: all.")] = None,
    *,
    pool: PoolPath = POOL_PATH,
    tenant: Tenant = "default",
    all_tenants: AllTenants = False,
    config: MetricsConfig = None,
    as_json: AsJson = False,
) -> None:
    """Show the success of every version in every family of the routed tasks, with 95 % intervals.

    Feedback counts by the metrics of the configuration, as the router learns them.
    """
    metrics = configured_metrics(config)
    scope = ALL_TENANTS if all_tenants else tenant
    with Pool.open(pool, read_only=True) as opened:
        known = sorted({version.agent for version in opened.agent_versions()})
        for agent in agents or ():
            if agent not in known:
                raise UnknownNameError(f"no agent {agent!r} in {str(pool)!r}; known: {', '.join(known) or 'none'}")
        profiles = capability_profiles(opened, tenant=scope, agents=agents or (), metrics=metrics)
        results = [
            Result(f"{item.version} {item.family}", item.mean, "reward", item.low, item.high, item.outcomes)
            for item in profiles
        ]
    taught = [metric.name for metric in taught_metrics(metrics)]
    emit("agents profile", results, {"agents": agents or "all", "metrics": taught}, as_json=as_json)


@agents_app.command("list")
def list_versions(pool: PoolPath = POOL_PATH, as_json: AsJson = False) -> None:
    """List the stored versions of all agents, with the last release of each and operators' limits."""
    with Pool.open(pool, read_only=True) as opened:
        versions, releases = list(opened.agent_versions()), opened.states(Release)
        limits = opened.states(AgentLimits)
    last = {release.candidate: release_status(release) for release in releases}
    rows = [
        {"version": version.id, "kind": version.kind, "parent": version.parent, "release": last.get(version.id)}
        for version in versions
    ]
    suspended = [limit.id for limit in limits if limit.is_suspended]
    emit("agents list", [], {"versions": rows, "suspended": suspended}, as_json=as_json)


@agents_app.command("add-version")
def add(  # noqa: PLR0913 - a command's parameters are its options
    base: Annotated[str, typer.Argument(help="The version that it comes from, agent@version.")],
    name: Annotated[str, typer.Argument(help="Name of the new version, without its agent.")],
    *,
    pool: PoolPath = POOL_PATH,
    model: Annotated[str | None, typer.Option(help="For an endpoint: another model at the same server.")] = None,
    prompt_file: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="For a local model or an endpoint: its prompt.")
    ] = None,
    temperature: Annotated[
        float | None, typer.Option(min=0, help="For a local model or an endpoint: the sampling temperature.")
    ] = None,
    who: Who,
    why: Why,
    as_json: AsJson = False,
) -> None:
    """Store a new version of an agent, from another one. `upturn release start` gives it tasks."""
    prompt = None if prompt_file is None else prompt_file.read_text(encoding="utf-8")
    override = Override(who, why)
    override.note("added")
    with Pool.open(pool, beside=True) as opened:
        version = add_version(opened, VersionChange(base, name, model, prompt, temperature))
    record_act(pool, AdminAct(who, "agents add-version", version.id, time(), "", why))
    details = {"version": version.id, "kind": version.kind, "parent": version.parent}
    emit("agents add-version", [], details, as_json=as_json)


@agents_app.command("update")
def update(  # noqa: PLR0913 - a command's parameters are its options
    agent: Annotated[str, typer.Argument(help="Name of the agent.")],
    *,
    pool: PoolPath = POOL_PATH,
    environment: _Names = None,
    any_environment: Annotated[bool, typer.Option("--any-environment", help="It may act in any.")] = False,
    for_tenant: _Names = None,
    load_cap: Annotated[int | None, typer.Option(min=1, help="Maximum number of tasks in flight.")] = None,
    suspended: Annotated[
        bool | None, typer.Option("--suspend/--serve", help="Whether it gets no tasks, or tasks again.")
    ] = None,
    who: Who,
    why: Why,
    as_json: AsJson = False,
) -> None:
    """Change what an agent may do: environments, tenants, tasks in flight. A running loop or server applies it."""
    change = CapabilityUpdate(
        agent,
        capabilities=() if any_environment else None if environment is None else tuple(environment),
        tenants=None if for_tenant is None else tuple(for_tenant),
        max_concurrent=load_cap,
        is_suspended=suspended,
    )
    with Pool.open(pool, beside=True) as opened:
        limits = update_agent_capabilities(opened, change, Override(who, why))
    record_act(pool, AdminAct(who, "agents update", agent, time(), "", why))
    details = {
        "agent": limits.id,
        "environments": "as configured" if limits.capabilities is None else limits.capabilities or "any",
        "tenants": "as configured" if limits.tenants is None else limits.tenants,
        "load_cap": "as configured" if limits.max_concurrent is None else limits.max_concurrent,
        "suspended": limits.is_suspended,
        "reason": limits.reason,
    }
    emit("agents update", [], details, as_json=as_json)


@agents_app.command("validate")
def validate(  # noqa: PLR0913 - a command's parameters are its options
    incumbent: Incumbent,
    candidate: Candidate,
    *,
    pool: PoolPath = POOL_PATH,
    tenant: Tenant = "default",
    config: CanaryConfig = None,
    out: Annotated[Path | None, typer.Option(help="File for the validation, for `upturn agents deploy`.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compare two versions on the held-out tasks that both have done. Exits with 1 unless it passes."""
    settings = ValidationSettings() if config is None else read_config(config).validation
    with Pool.open(pool, read_only=True) as opened:
        verdict = validate_agent_performance(opened, incumbent, candidate, settings, tenant=tenant)
    if out is not None:
        out.write_text(to_json(verdict) + "\n", encoding="utf-8")
    results = [Result("verdict", verdict.verdict)]
    if verdict.gain is not None:
        results.append(Result("gain", verdict.gain, "success", verdict.low, verdict.high, verdict.n))
    emit("agents validate", results, {"reasons": list(verdict.reasons), "file": str(out or "")}, as_json=as_json)
    if verdict.verdict != "pass":
        raise typer.Exit(1)


@agents_app.command("deploy")
def deploy(
    incumbent: Incumbent,
    candidate: Candidate,
    *,
    pool: PoolPath = POOL_PATH,
    tenant: Tenant = "default",
    config: CanaryConfig = None,
    as_json: AsJson = False,
) -> None:
    """Validate a version on stored evidence, and start its canary if it passes."""
    validation, canary = ValidationSettings(), CanarySettings()
    if config is not None:
        loaded = read_config(config)
        validation, canary = loaded.validation, loaded.canary
    with Pool.open(pool, beside=True) as opened:
        verdict = validate_agent_performance(opened, incumbent, candidate, validation, tenant=tenant)
        release = deploy_improved_agent(opened, incumbent, candidate, verdict, canary)
    record_act(pool, AdminAct("command line", "releases start", candidate, time(), "", "passed validation"))
    show_release("agents deploy", release, as_json)
