"""The demo's figures as results with their bars: what ``summary.json`` holds."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from upturn.deployment import Interval
from upturn.loop.demo.demo import Facts
from upturn.loop.demo.plan import DemoPlan
from upturn.loop.evaluation import HeldoutResult, families_of, levels_of
from upturn.records import JsonValue, Release, Result


class Resources(NamedTuple):
    """What the whole process took."""

    wall_seconds: float
    peak_rss_mb: float


def demo_results(facts: Facts, resources: Resources, plan: DemoPlan) -> tuple[Result, ...]:
    """All figures in a fixed order; a figure that could not be measured has the value ``none``."""
    gain = facts.after.gain_over(facts.before)
    return (
        _bounded("wall_seconds", resources.wall_seconds, "s", 60 * plan.minutes),
        _bounded("peak_rss_mb", resources.peak_rss_mb, "MB", 3000),
        _rate("heldout_success_before", facts.before),
        _rate("heldout_after_sft", facts.after_sft),
        _rate("heldout_success_after", facts.after, at_least=plan.success),
        _rate("heldout_greedy_before", facts.before_greedy),
        _rate("heldout_greedy_after", facts.after_greedy),
        _gain("gain", gain, f"low > {plan.gain:g}", gain.low > plan.gain),
        _practice(facts, plan.gain_by_practice),
        *_levels(facts.after, plan.success_by_level),
        *_release("release", facts.release, "promoted"),
        *_release("damaged", facts.damaged_release, "rolled_back", most_tasks=300),
        _damage(facts),
        _share(facts),
        *_floors(facts),
        *(
            _at_least(f"coverage_{name}", share.covered / max(share.total, 1), bar, n=share.total)
            for (name, bar), share in zip(
                (("routing", 1.0), ("execution", 0.95), ("evaluation", 0.90), ("agents", 1.0)),
                facts.coverage,
                strict=True,
            )
        ),
        *(() if facts.work is None else facts.work.results),
    )


def demo_details(facts: Facts) -> dict[str, JsonValue]:
    """The same by family and by level, and what the canaries said."""
    heldout_results = {
        "before": facts.before,
        "before_greedy": facts.before_greedy,
        "after_sft": facts.after_sft,
        "after": facts.after,
        "after_greedy": facts.after_greedy,
        "damaged": facts.damaged,
    }
    return {
        "levels": {name: _by_level(heldout) for name, heldout in heldout_results.items()},
        "families": {name: _by_family(heldout) for name, heldout in heldout_results.items()},
        "arena": {heldout.agent_version: _by_family(heldout) for heldout in facts.arena},
        "routing": [
            {
                "family": share.family,
                "best": share.best,
                "lead": round(share.lead, 4),
                "probability": round(share.probability, 4),
                "decisions": share.decisions,
                "counted": share.is_counted,
            }
            for share in facts.shares
        ],
        "readiness": {
            "demo": {"ready": facts.readiness.is_ready, "checks": _checks(facts.readiness.checks)},
            "production": {
                "ready": facts.production_readiness.is_ready,
                "checks": _checks(facts.production_readiness.checks),
            },
        },
        "floors": [
            {"family": floor.family, "oracle": floor.oracle, "nothing": floor.nothing, "random": floor.random}
            for floor in facts.floors
        ],
        "validation": facts.validation.summary,
        "versions": [version.id for version in facts.versions],
    }


def _levels(heldout: HeldoutResult, bars: Mapping[int, float]) -> Iterator[Result]:
    """Success by level; the lowest alone where all have the same bar."""
    rates = {level: heldout.rate(level=level) for level in levels_of(heldout.marks)}
    if len(set(bars.values())) == 1:
        yield _at_least("min_level_success_after", min(rates.values()), min(bars.values()))
        return
    for level, rate in rates.items():
        found = heldout.interval(level=level)
        bar = bars[level]
        name = f"level_{level}_success_after"
        yield Result(name, rate, "share", found.low, found.high, found.n, f">= {bar:g}", rate >= bar)


def _checks(checks: tuple[Result, ...]) -> list[JsonValue]:
    return [{"name": check.name, "value": check.value, "bar": check.bar, "holds": check.holds} for check in checks]


def _by_level(heldout: HeldoutResult) -> dict[str, JsonValue]:
    return {f"L{level}": _interval(heldout.interval(level=level)) for level in levels_of(heldout.marks)}


def _by_family(heldout: HeldoutResult) -> dict[str, JsonValue]:
    return {family: _interval(heldout.interval(family=family)) for family in families_of(heldout.marks)}


def _interval(found: Interval) -> dict[str, JsonValue]:
    return {"value": found.mean, "low": found.low, "high": found.high, "n": found.n}


def _bounded(name: str, value: float, unit: str, most: float) -> Result:
    return Result(name, round(value, 1), unit, bar=f"<= {most:g}", holds=value <= most)


def _at_least(name: str, value: float, bar: float, n: int | None = None) -> Result:
    return Result(name, value, "share", n=n, bar=f">= {bar:g}", holds=value >= bar)


def _rate(name: str, heldout: HeldoutResult, at_least: float | None = None) -> Result:
    found = heldout.interval()
    bar = None if at_least is None else f">= {at_least:g}"
    holds = None if at_least is None else found.mean >= at_least
    return Result(name, found.mean, "share", found.low, found.high, found.n, bar, holds)


def _gain(name: str, found: Interval, bar: str | None = None, holds: bool | None = None) -> Result:
    return Result(name, found.mean, "share", found.low, found.high, found.n, bar, holds)


def _practice(facts: Facts, least: float | None) -> Result:
    found = facts.after.gain_over(facts.after_sft)
    if least is None:
        return _gain("gain_grpo", found)
    return _gain("gain_grpo", found, f">= {least:.2f}, low > 0", found.mean >= least and found.low > 0)


def _release(
    name: str, release: Release | None, wanted: str, most_tasks: int | None = None
) -> tuple[Result, Result]:
    if release is None:
        return (
            Result(f"{name}_verdict", "none", bar=wanted, holds=False),
            Result(f"{name}_canary_tasks", "none", "tasks"),
        )
    tasks = float(release.evidence[-1].candidate_tasks) if release.evidence else 0.0
    verdict = Result(f"{name}_verdict", release.state, bar=wanted, holds=release.state == wanted)
    if most_tasks is None:
        return verdict, Result(f"{name}_canary_tasks", tasks, "tasks")
    return verdict, Result(
        f"{name}_canary_tasks", tasks, "tasks", bar=f"<= {most_tasks}", holds=tasks <= most_tasks
    )


def _damage(facts: Facts) -> Result:
    found = facts.damaged.gain_over(facts.healthy)
    drop = -found.mean
    is_near = abs(drop - 0.20) <= 0.05
    return Result("damaged_drop", drop, "share", -found.high, -found.low, found.n, "0.20 ± 0.05", is_near)


def _share(facts: Facts) -> Result:
    counted = [share.probability for share in facts.shares if share.is_counted]
    if not counted:
        return Result("best_agent_share", "none", "share", bar=">= 0.7", holds=False)
    mean = sum(counted) / len(counted)
    return Result(
        "best_agent_share", mean, "share", min(counted), max(counted), len(counted), ">= 0.7", mean >= 0.7
    )


def _floors(facts: Facts) -> tuple[Result, Result, Result]:
    count = min(floor.count for floor in facts.floors)
    worst = min(floor.oracle for floor in facts.floors)
    nothing = max(floor.nothing for floor in facts.floors)
    random = max(floor.random for floor in facts.floors)
    return (
        Result("floor_success", nothing, "share", n=count, bar="<= 0", holds=nothing == 0.0),
        Result("oracle_success", worst, "share", n=count, bar=">= 1", holds=worst == 1.0),
        Result("random_success", random, "share", n=count, bar="<= 0.02", holds=random <= 0.02),
    )
