"""``upturn pool ready`` and ``calls``: what training could use."""

import os
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from upturn.cli.options import POOL_PATH, AsJson, PoolPath, Tenant
from upturn.cli.output import emit, print_message, show_table
from upturn.config import ReadinessConfig, TrafficConfig, traffic_metrics
from upturn.pool import (
    Pool,
    readiness,
)
from upturn.pool.traffic import read_episodes
from upturn.records import Result

if TYPE_CHECKING:
    from upturn.loop.trainers import StoredWay

_NANO = {"name": "nano", "kind": "local_model", "model": "nano"}
"""The agent that would be trained, without a configuration."""


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
    """Check the prerequisites of training, and which algorithms can train on the stored trajectories and on the
    gateway's traffic, with what, and why not the others. Exits with 1 if a prerequisite fails.
    """
    from upturn.loop.trainers import load_full_config, parse_full_config, survey_stored
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
        ways, stored = survey_pool(opened, trained), survey_stored(opened, trained)
    advice = {check.name: check.advice for check in report.checks if not check.holds}
    details = {"tenant": tenant, "advice": advice, "failed_gates": report.survey.failed_gates}
    if as_json:
        details["traffic"] = {way.name: way._asdict() for way in ways}
        details["stored"] = {way.kind: way._asdict() for way in stored}
    config_hash = "" if loaded is None else loaded.config_hash
    emit("pool ready", report.results(), details, as_json=as_json, config_hash=config_hash)
    if stored and not as_json:
        _show_stored(stored, has_config=config is not None)
    if ways and not as_json:
        rows = [(f"train {way.name}", "no" if way.refusal else "yes", f"{way.number} {way.unit}") for way in ways]
        show_table("training on the gateway's traffic", ("command", "possible", "data"), rows)
        for way in ways:
            if why := way.refusal or (way.omissions and f"omitted: {way.omissions}"):
                typer.echo(f"train {way.name}: {why}")
    if not report.is_ready:
        print_message(f"not ready: {len(advice)} of {len(report.checks)} prerequisites failed")
        raise typer.Exit(1)


def _show_stored(ways: "Sequence[StoredWay]", *, has_config: bool) -> None:
    rows = [
        (way.kind, "no" if way.refusal else "yes", f"{way.number:,} {way.unit}", "" if way.refusal else way.command)
        for way in ways
    ]
    show_table("training on the stored trajectories", ("kind", "possible", "data", "command"), rows)
    for way in ways:
        omitted = f"left out: {way.omissions}" if way.omissions else ""
        if why := "; ".join(filter(None, (way.refusal, omitted))):
            typer.echo(f"{way.kind}: {why}")
    agent = "" if has_config else "\n".join(("[[agents]]", *(f'{key} = "{value}"' for key, value in _NANO.items())))
    for way in ways:
        if way.settings:
            typer.echo(f"\n{way.command} needs in upturn.toml:")
            typer.echo("\n".join(f"  {line}" for line in f"{agent}\n{way.settings}".strip().splitlines()))


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
