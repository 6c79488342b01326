"""``upturn route``: replay recorded outcomes through routing policies, and explain logged decisions."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from upturn.arbiter import Interval, Recording, Replay, ReplayOptions, learning_policies, read_recording, replay
from upturn.cli.output import emit, progress, say
from upturn.errors import ConfigError, UnknownNameError
from upturn.records import Decision, Result

SHOWN_BAD_LINES = 20
"""Set-aside lines that people are shown; ``--json`` lists all."""

MAX_ROUNDS = 250
"""Rounds of learning in one order that the default wave aims at for a single family."""

MIN_ROUNDS = 25
MAX_UPDATES = 2000
"""Families times rounds that the default wave aims at: keeps large files with many families to minutes."""

route_app = typer.Typer(
    name="route", help="Replay recorded outcomes through routing policies; explain decisions.", no_args_is_help=True
)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]


@route_app.callback()
def _route() -> None:
    """Replay recorded outcomes through routing policies; explain decisions."""


@route_app.command("replay")
def replay_file(
    file: Annotated[Path, typer.Argument(help="CSV: a prompt column, one column of correctness per model.")],
    *,
    models: Annotated[
        str, typer.Option(help="The models' columns, comma-separated; default: found by content.")
    ] = "",
    family: Annotated[
        str | None, typer.Option(help="The family column; default: 'family', if there is one.")
    ] = None,
    seeds: Annotated[int, typer.Option(help="Random orders of the lines for each policy.")] = 10,
    wave: Annotated[int, typer.Option(help="Lines decided between two rounds of learning; 0 = by size.")] = 0,
    as_json: Json = False,
) -> None:
    """Reward and regret of routing policies on recorded outcomes. Exit code 1 when a line was set aside."""
    if seeds < 1 or wave < 0:
        raise ConfigError([f"--seeds must be at least 1 and --wave at least 0, got {seeds} and {wave}"])
    named = [name.strip() for name in models.split(",") if name.strip()]
    recording = read_recording(file, models=named, family=family)
    lines = len(recording.rewards)
    options = ReplayOptions(seeds=seeds, wave=wave or _default_wave(lines, len(set(recording.families))))
    policies = learning_policies()
    with progress("replaying", len(policies) * seeds) as ticker:
        replayed = replay(recording, policies, options, on_order=ticker.advance)
    details: dict[str, object] = {
        "lines": lines,
        "seeds": seeds,
        "wave": options.wave,
        "families": dict(sorted(Counter(recording.families).items())),
        "best_single": replayed.best_single,
        "shares": {policy.name: policy.shares for policy in replayed.policies},
        "ignored_columns": recording.ignored_columns,
        "quarantined": _quarantined(recording, None if as_json else SHOWN_BAD_LINES),
    }
    if recording.costs is not None:
        details["mean_cost"] = {policy.name: policy.cost for policy in replayed.policies}
    emit("route replay", _results(replayed, lines), details, as_json=as_json)
    if recording.bad_lines:
        say(f"{len(recording.bad_lines)} of {len(recording.bad_lines) + lines} lines were set aside")
        raise typer.Exit(1)


def _default_wave(lines: int, families: int) -> int:
    rounds = max(MIN_ROUNDS, min(MAX_ROUNDS, MAX_UPDATES // families))
    return max(1, lines // rounds)


def _results(replayed: Replay, lines: int) -> list[Result]:
    """Success of each model, then reward and both regrets of each policy; n = lines."""
    results = [_result(f"model {name}", reward, lines) for name, reward in replayed.models.items()]
    for policy in replayed.policies:
        results.append(_result(f"{policy.name} reward", policy.reward, lines))
        for baseline, regret in (("best_single", policy.regret_best), ("oracle", policy.regret_oracle)):
            if policy.name != baseline:
                results.append(_result(f"{policy.name} regret_{baseline}", regret, lines))
    return results


def _result(name: str, figure: Interval, lines: int) -> Result:
    return Result(name, figure.value, "reward", figure.low, figure.high, lines)


def _quarantined(recording: Recording, shown: int | None) -> dict[str, object]:
    """The lines set aside, the first ``shown`` of them one by one (None = all)."""
    return {
        "count": len(recording.bad_lines),
        "by_reason": dict(Counter(bad.reason for bad in recording.bad_lines).most_common(shown)),
        "lines": [{"line": bad.line, "reason": bad.reason} for bad in recording.bad_lines[:shown]],
    }


@route_app.command("explain")
def explain(
    what: Annotated[str, typer.Argument(help="A decision's id, or a task family (then its latest decision).")],
    *,
    pool: Annotated[Path, typer.Option("--pool", help="The pool's file.")] = Path("upturn.db"),
    tenant: Annotated[str, typer.Option("--tenant", help="Whose decisions.")] = "default",
    all_tenants: Annotated[
        bool, typer.Option("--all-tenants", help="The operator's view, over every tenant.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Why a task went to its agent: every version considered, with its probability or why it was excluded."""
    from upturn.pool import ALL_TENANTS, Pool  # replaying needs no database

    with Pool.open(pool, read_only=True) as opened:
        found = find_decision(opened.decisions(tenant=ALL_TENANTS if all_tenants else tenant), what)
    decision = found.decision
    details: dict[str, object] = {
        "decision": decision.id,
        "task": decision.task_id,
        "family": decision.family,
        "tenant": decision.tenant,
        "policy": f"{decision.policy} (state {decision.policy_snapshot})",
        "chosen": decision.chosen,
        "propensity": decision.propensity,
        "reason": decision.reason,
        "excluded": {seen.agent_version: seen.excluded_by for seen in decision.alternatives if seen.excluded_by},
    }
    optional = {"episode": decision.episode, "release": decision.release, "arm": decision.arm}
    details |= {name: value for name, value in optional.items() if value is not None}
    if found.shares:
        details["decisions_in_family"] = found.shares.total()
        details["chosen_in_family"] = dict(found.shares.most_common())
    emit("route explain", _considered(decision), details, as_json=as_json)


class Found(NamedTuple):
    """The decision to explain."""

    decision: Decision
    shares: Counter[str]
    """How often each version was chosen in the family; empty when a single decision was asked for."""


def find_decision(decisions: Iterable[Decision], what: str) -> Found:
    """The decision with the id ``what``, else the last one in the family ``what``; raises UnknownNameError."""
    latest: Decision | None = None
    shares: Counter[str] = Counter()
    families: set[str] = set()
    for decision in decisions:
        if decision.id == what:
            return Found(decision, Counter())
        families.add(decision.family)
        if decision.family == what:
            latest = decision
            shares[decision.chosen] += 1
    if latest is None:
        known = ", ".join(sorted(families)) or "none, no decision is stored for this tenant"
        raise UnknownNameError(f"no decision and no family is called {what!r}; families with decisions: {known}")
    return Found(latest, shares)


def _considered(decision: Decision) -> list[Result]:
    """The probability of every eligible version, and its believed success where the policy has a belief."""
    results: list[Result] = []
    for seen in decision.alternatives:
        if not seen.excluded_by:
            results.append(Result(f"probability {seen.agent_version}", seen.probability))
            if seen.estimate is not None:
                results.append(Result(f"estimate {seen.agent_version}", seen.estimate, "success"))
    return results
