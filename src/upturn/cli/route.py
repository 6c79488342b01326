"""``upturn route``: replays recorded outcomes through routing policies, evaluates a new policy on the pool's
decisions, and explains logged decisions."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from upturn.arbiter import (
    CheckedEstimates,
    Interval,
    OffPolicyEstimate,
    PolicyCheck,
    PolicyGate,
    Recording,
    Replay,
    ReplayOptions,
    check_estimates,
    check_new_policy,
    learning_policies,
    read_recording,
    replay,
    stored_recording,
)
from upturn.cli.options import POOL_PATH, AllTenants, AsJson, PoolPath, Tenant, read_config
from upturn.cli.output import emit, print_message, progress, show_table
from upturn.cli.release import Who, Why
from upturn.config import ObjectiveConfig, declared_metrics, dump_settings
from upturn.deployment import Override
from upturn.errors import ConfigError, ReleaseError, UnknownNameError
from upturn.records import Decision, Forecast, Result

if TYPE_CHECKING:
    from upturn.pool import Pool

MAX_LINES_SHOWN = 20
"""Maximum number of quarantined lines to print; ``--json`` prints all."""

MAX_FAMILIES_SHOWN = 60
"""Maximum number of families to print; ``--json`` prints all."""

MAX_ROUNDS = 250
"""Number of policy updates per order that the default wave aims at for a single family."""

MIN_ROUNDS = 25
MAX_UPDATES = 2000
"""Families times rounds that the default wave aims at: limits large files with many families to minutes."""

GATE = PolicyGate()
"""What a new policy must show unless an option says otherwise."""

route_app = typer.Typer()


@route_app.command("replay")
def replay_file(  # noqa: PLR0913 - a command's parameters are its options
    file: Annotated[
        str, typer.Argument(help="CSV with a prompt column and one column of correctness per model, or a pool.")
    ],
    *,
    models: Annotated[
        str,
        typer.Option(
            help="Comma-separated columns of the models, or agent versions of the pool. Default: detected by "
            "content, or all."
        ),
    ] = "",
    family: Annotated[
        str | None,
        typer.Option(
            help="Column of the task family, or a family of the pool. Default: 'family', if it exists, or all."
        ),
    ] = None,
    tenant: Annotated[str, typer.Option(help="Tenant of the pool.")] = "default",
    seeds: Annotated[int, typer.Option(help="Number of random orders of the lines per policy.")] = 10,
    wave: Annotated[int, typer.Option(help="Lines between two policy updates; 0 = depends on the size.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Measure routing policies' reward and regret on recorded outcomes. Exits with 1 if a line was quarantined."""
    if seeds < 1 or wave < 0:
        raise ConfigError([f"--seeds must be at least 1 and --wave at least 0, got {seeds} and {wave}"])
    names = [name.strip() for name in models.split(",") if name.strip()]
    recording = _read_outcomes(file, names, family, tenant)
    lines = len(recording.rewards)
    options = ReplayOptions(seeds=seeds, wave=wave or _default_wave(lines, len(set(recording.families))))
    policies = learning_policies()
    with progress("replaying", len(policies) * seeds) as ticker:
        replayed = replay(recording, policies, options, on_order=ticker.advance)
    log_policy, make = next(iter(policies.items()))
    checked = check_estimates(recording, make, wave=options.wave)
    details: dict[str, object] = {
        "lines": lines,
        "seeds": seeds,
        "wave": options.wave,
        "families": dict(sorted(Counter(recording.families).items())),
        "best_single": replayed.best_single,
        "shares": {policy.name: policy.shares for policy in replayed.policies},
        "estimated_from": f"one log of {log_policy}",
        "estimates": {estimates.model: _beside_truth(estimates) for estimates in checked},
        "ignored_columns": recording.ignored_columns,
        "incomplete_tasks": recording.incomplete_tasks,
        "quarantined": _quarantined(recording, None if as_json else MAX_LINES_SHOWN),
    }
    if as_json:
        details["by_family"] = {name: asdict(family) for name, family in replayed.families.items()}
    if recording.costs is not None:
        details["mean_cost"] = {policy.name: policy.cost for policy in replayed.policies}
    results = _results(replayed, lines) + [
        result for estimates in checked for result in _estimate_results(f"{estimates.model} ", estimates.estimates)
    ]
    emit("route replay", results, details, as_json=as_json)
    if not as_json:
        _show_families(replayed)
    if recording.bad_lines:
        bad = len(recording.bad_lines)
        print_message(f"{bad} of {bad + lines} lines were quarantined")
        raise typer.Exit(1)


def _read_outcomes(file: str, models: Sequence[str], family: str | None, tenant: str) -> Recording:
    from upturn.pool import Pool, names_pool

    if not names_pool(file):
        return read_recording(Path(file), models=models, family=family)
    with Pool.open(file, read_only=True) as pool:
        return stored_recording(pool, tenant=tenant, models=models, family=family or "")


def _default_wave(lines: int, families: int) -> int:
    rounds = max(MIN_ROUNDS, min(MAX_ROUNDS, MAX_UPDATES // families))
    return max(1, lines // rounds)


def _show_families(replayed: Replay) -> None:
    """Prints a row of mean rewards for each family, the largest ones first."""
    families = sorted(replayed.families.items(), key=lambda item: -item[1].lines)[:MAX_FAMILIES_SHOWN]
    names = [policy.name for policy in replayed.policies]
    rows = [
        [name, str(family.lines), family.best, *(f"{family.policies[policy]:.3f}" for policy in names)]
        for name, family in families
    ]
    show_table("reward by family", ["family", "lines", "best model", *names], rows)
    if len(replayed.families) > len(families):
        print_message(f"{len(replayed.families) - len(families)} smaller families are listed by --json")


def _results(replayed: Replay, lines: int) -> list[Result]:
    """Success of each model, then the reward and both regrets of each policy."""

    def result(name: str, figure: Interval) -> Result:
        return Result(name, figure.value, "reward", figure.low, figure.high, lines)

    results = [result(f"model {name}", reward) for name, reward in replayed.models.items()]
    for policy in replayed.policies:
        results.append(result(f"{policy.name} reward", policy.reward))
        for baseline, regret in (("best_single", policy.regret_best), ("oracle", policy.regret_oracle)):
            if policy.name != baseline:
                results.append(result(f"{policy.name} regret_{baseline}", regret))
    return results


def _estimate_results(prefix: str, estimates: Iterable[OffPolicyEstimate]) -> list[Result]:
    """The estimates that are not refused."""
    return [
        Result(
            f"{prefix}{estimate.method}", estimate.value, "reward", estimate.low, estimate.high, estimate.decisions
        )
        for estimate in estimates
        if estimate.value is not None
    ]


def _beside_truth(checked: CheckedEstimates) -> dict[str, object]:
    return {"truth": checked.truth} | {
        estimate.method: _estimate_text(estimate, checked.truth) for estimate in checked.estimates
    }


def _estimate_text(estimate: OffPolicyEstimate, truth: float) -> str:
    """For example ``0.842 (0.801 to 0.876), holds the truth``."""
    if estimate.value is None or estimate.low is None or estimate.high is None:
        return f"refused: {estimate.refusal}"
    verdict = "holds" if estimate.low <= truth <= estimate.high else "misses"
    return f"{estimate.value:.3f} ({estimate.low:.3f} to {estimate.high:.3f}), {verdict} the truth"


def _quarantined(recording: Recording, limit: int | None) -> dict[str, object]:
    """Counts of quarantined lines, and the first ``limit`` lines; None = all."""
    return {
        "count": len(recording.bad_lines),
        "by_reason": dict(Counter(bad.reason for bad in recording.bad_lines).most_common(limit)),
        "lines": [{"line": bad.line, "reason": bad.reason} for bad in recording.bad_lines[:limit]],
    }


@route_app.command("evaluate")
def evaluate(  # noqa: PLR0913 - a command's parameters are its options
    pool: Annotated[str, typer.Argument(help="File or URL of the pool with the logged decisions.")],
    *,
    policy: Annotated[
        Path,
        typer.Option("--policy", help="Configuration file with the new policy: its sections routing and agents."),
    ],
    metric: Annotated[
        str,
        typer.Option(help="Metric of feedback. Default: the verdict of an evaluation, else the primary metric."),
    ] = "",
    margin: Annotated[
        float, typer.Option(min=0, max=0.99, help="Loss of mean reward per decision that is accepted.")
    ] = GATE.margin,
    min_decisions: Annotated[
        int, typer.Option(min=2, help="Decisions with an outcome that are needed; an episode counts as one.")
    ] = GATE.min_decisions,
    tenant: Tenant = "default",
    as_json: AsJson = False,
) -> None:
    """Estimate from logged decisions how well a new routing policy would do. Exits with 1 unless it passes."""
    from upturn.loop.online import read_decision_log  # replaying needs no database
    from upturn.loop.run import policy_of
    from upturn.pool import Pool

    config = read_config(policy)
    with Pool.open(pool, read_only=True) as opened:
        log = read_decision_log(opened, tenant=tenant, metric=metric, metrics=config.gateway.metrics)
    agents, new, weights = [agent.name for agent in config.agents], policy_of(config), config.routing.objective
    gate = PolicyGate(margin=margin, min_decisions=min_decisions)
    check = check_new_policy(new, log.logged, gate, tasks=log.tasks, agents=agents, weights=weights)
    is_weighed = weights != ObjectiveConfig()
    gain = [
        replace(result, bar=f"lower limit >= {-margin:g}", holds=check.is_passed)
        for result in _estimate_results("", [check.gain])
    ]
    details: dict[str, object] = {
        "verdict": check.verdict,
        "reasons": check.reasons,
        "policy": new.name,
        "metric": metric or declared_metrics(config.gateway.metrics)[0].name,
        "objective": dump_settings(weights) if is_weighed else "quality",
        "decisions": check.gain.decisions,
        "decisions_without_outcome": check.gain.missing,
        "effective_samples": {estimate.method: estimate.effective_samples for estimate in check.estimates},
        "max_weight": check.gain.max_weight,
        "refused": {estimate.method: estimate.refusal for estimate in check.estimates if estimate.refusal},
        "shares": check.shares,
        "logged_shares": check.logged_shares,
    }
    if is_weighed:
        weighable = check.gain.decisions + check.gain.missing
        details["decisions_without_forecast"] = len(log.logged) - weighable
    results = [
        *gain,
        *(replace(result, name="logged") for result in _estimate_results("", [check.logged])),
        *_estimate_results("", check.estimates),
    ]
    if is_weighed:
        results = [replace(result, unit="objective") for result in results]
    results += _used_results(check)
    emit("route evaluate", results, details, as_json=as_json, config_hash=config.config_hash)
    if not check.is_passed:
        raise typer.Exit(1)


@route_app.command("freeze")
def stop_learning(*, pool: PoolPath = POOL_PATH, who: Who, why: Why, as_json: AsJson = False) -> None:
    """Stop the router from learning: its probabilities stay as they are, and evidence is only stored."""
    from upturn.pool.access import freeze

    Override(who, why).note("frozen")
    _opened(pool).close()
    frozen = freeze(pool, who=who, why=why, when=time())
    details = {"frozen": True, "who": frozen.act.who, "why": frozen.act.why, "until_record": frozen.sequence}
    emit("route freeze", [], details, as_json=as_json)


@route_app.command("unfreeze")
def learn_again(*, pool: PoolPath = POOL_PATH, who: Who, why: Why, as_json: AsJson = False) -> None:
    """Let the router learn again, first what was stored meanwhile."""
    from upturn.loop.run import CONFIGURATION
    from upturn.pool.access import current_freeze, unfreeze

    Override(who, why).note("unfrozen")
    with _opened(pool) as opened:
        frozen = current_freeze(opened.engine)
    if frozen is not None and frozen.act.who == CONFIGURATION:
        raise ReleaseError("routing.frozen = true in the configuration; set it to false, and reload or restart")
    was_frozen = unfreeze(pool, who=who, why=why, when=time())
    emit("route unfreeze", [], {"frozen": False, "was_frozen": was_frozen}, as_json=as_json)


def _opened(pool: str) -> "Pool":
    """The pool; raises StoreError unless there is one of this version."""
    from upturn.pool import Pool

    return Pool.open(pool, beside=True)


def _used_results(check: PolicyCheck) -> list[Result]:
    """Mean cost and seconds of the new policy and of the logged routing."""
    units = {"cost": "USD", "seconds": "s"}
    return [
        replace(result, name=name, unit=units[kind])
        for kind, estimates in check.used.items()
        for name, estimate in zip((kind, f"logged {kind}"), estimates, strict=True)
        for result in _estimate_results("", [estimate])
    ]


@route_app.command("explain")
def explain(
    what: Annotated[str, typer.Argument(help="Id of a decision, or a task family for its latest decision.")],
    *,
    pool: PoolPath = POOL_PATH,
    tenant: Tenant = "default",
    all_tenants: AllTenants = False,
    as_json: AsJson = False,
) -> None:
    """Explain a routing decision: every version with its probability, or the reason why it was excluded."""
    from upturn.pool import ALL_TENANTS, Pool  # replaying needs no database

    with Pool.open(pool, read_only=True) as opened:
        decision, shares = find_decision(opened.decisions(tenant=ALL_TENANTS if all_tenants else tenant), what)
    details: dict[str, object] = {
        "decision": decision.id,
        "task": decision.task_id,
        "family": decision.family,
        "tenant": decision.tenant,
        "policy": f"{decision.policy} (state {decision.policy_snapshot})",
        "chosen": decision.chosen,
        "propensity": decision.propensity,
        "reason": decision.reason,
        "excluded": {
            option.agent_version: option.excluded_by for option in decision.alternatives if option.excluded_by
        },
    }
    if decision.family_source:
        details["family_source"] = decision.family_source
    optional = {"episode": decision.episode, "release": decision.release, "arm": decision.arm}
    details |= {name: value for name, value in optional.items() if value is not None}
    if shares:
        details["decisions_in_family"] = shares.total()
        details["chosen_in_family"] = dict(shares.most_common())
    emit("route explain", _probabilities(decision), details, as_json=as_json)


class FoundDecision(NamedTuple):
    """The decision to explain."""

    decision: Decision
    shares: Counter[str]
    """Number of decisions for each version in the family; empty for a decision's id."""


def find_decision(decisions: Iterable[Decision], what: str) -> FoundDecision:
    """The decision with the id ``what``, or the last one of the family ``what``; raises UnknownNameError."""
    latest: Decision | None = None
    shares: Counter[str] = Counter()
    families: set[str] = set()
    for decision in decisions:
        if decision.id == what:
            return FoundDecision(decision, Counter())
        families.add(decision.family)
        if decision.family == what:
            latest = decision
            shares[decision.chosen] += 1
    if latest is None:
        known = ", ".join(sorted(families)) or "none, no decision is stored for this tenant"
        raise UnknownNameError(f"no decision and no family is called {what!r}; families with decisions: {known}")
    return FoundDecision(latest, shares)


def _probabilities(decision: Decision) -> list[Result]:
    """The probability of every eligible version, and its estimated success if the policy has an estimate."""
    results: list[Result] = []
    for option in decision.alternatives:
        if not option.excluded_by:
            results.append(Result(f"probability {option.agent_version}", option.probability))
            if option.estimate is not None:
                results.append(Result(f"estimate {option.agent_version}", option.estimate, "success"))
            if option.forecast is not None:
                results += _forecast(option.agent_version, option.forecast)
    return results


def _forecast(version: str, forecast: Forecast) -> list[Result]:
    cost = "unknown" if forecast.cost_usd is None else forecast.cost_usd
    return [
        Result(f"cost {version}", cost, "USD"),
        Result(f"duration {version}", forecast.seconds, "s"),
        Result(f"handicap {version}", forecast.handicap, "reward"),
    ]
