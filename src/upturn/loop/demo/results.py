"""The demo's figures as results with their bars: the content of ``summary.json``."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from upturn.interval import Interval
from upturn.loop.cycle import ReadinessReport
from upturn.loop.demo.demo import Facts
from upturn.loop.demo.plan import DemoPlan
from upturn.loop.evaluation import HeldoutResult, families_of, levels_of
from upturn.pool.quality import COVERAGE_BARS
from upturn.records import JsonValue, Release, Result


class Resources(NamedTuple):
    """Resources used by the run."""

    wall_seconds: float
    peak_rss_mb: float


def demo_results(facts: Facts, resources: Resources, plan: DemoPlan) -> tuple[Result, ...]:
    """All figures in a fixed order; a figure that could not be measured has the value ``none``."""
    gain = facts.after.gain_over(facts.before)
    return (
        _at_most("wall_seconds", resources.wall_seconds, "s", 60 * plan.max_minutes),
        _at_most("peak_rss_mb", resources.peak_rss_mb, "MB", 3000),
        facts.before.interval().result("heldout_success_before"),
        facts.after_sft.interval().result("heldout_after_sft"),
        _success_after(facts.after.interval(), plan.min_success),
        facts.before_greedy.interval().result("heldout_greedy_before"),
        facts.after_greedy.interval().result("heldout_greedy_after"),
        gain.result("gain", bar=f"low > {plan.min_gain:g}", holds=gain.low > plan.min_gain),
        _grpo_gain(facts, plan.min_grpo_gain),
        *(() if facts.choice is None else facts.choice.results()),
        *_levels(facts.after, plan.min_success_by_level),
        *_release("release", facts.release, "promoted"),
        *_release("damaged", facts.damaged_release, "rolled_back", max_tasks=300),
        _damage(facts),
        _best_agent_share(facts),
        *_floors(facts),
        *(
            _at_least(f"coverage_{name}", share.covered / max(share.total, 1), bar, n=share.total)
            for (name, bar), share in zip(COVERAGE_BARS.items(), facts.coverage, strict=True)
        ),
        *(() if facts.final_evaluation is None else facts.final_evaluation.results),
    )


def demo_details(facts: Facts) -> dict[str, JsonValue]:
    """Success by level and family, routing, readiness, floors, validation and versions."""
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
        "readiness": {"demo": _readiness(facts.readiness), "production": _readiness(facts.production_readiness)},
        "floors": [
            {"family": floor.family, "oracle": floor.oracle, "nothing": floor.nothing, "random": floor.random}
            for floor in facts.floors
        ],
        "validation": facts.validation.summary,
        "versions": [version.id for version in facts.versions],
    }


def _readiness(report: ReadinessReport) -> JsonValue:
    checks: list[JsonValue] = [
        {name: getattr(check, name) for name in ("name", "value", "bar", "holds")} for check in report.checks
    ]
    return {"ready": report.is_ready, "checks": checks}


def _by_level(heldout: HeldoutResult) -> dict[str, JsonValue]:
    return {f"L{level}": _interval(heldout.interval(level=level)) for level in levels_of(heldout.marks)}


def _by_family(heldout: HeldoutResult) -> dict[str, JsonValue]:
    return {family: _interval(heldout.interval(family=family)) for family in families_of(heldout.marks)}


def _interval(interval: Interval) -> dict[str, JsonValue]:
    return {"value": interval.mean, "low": interval.low, "high": interval.high, "n": interval.n}


def _at_most(name: str, value: float, unit: str, bar: float) -> Result:
    return Result(name, round(value, 1), unit, bar=f"<= {bar:g}", holds=value <= bar)


def _at_least(name: str, value: float, bar: float, n: int | None = None) -> Result:
    return Result(name, value, "share", n=n, bar=f">= {bar:g}", holds=value >= bar)


def _success_after(interval: Interval, bar: float | None) -> Result:
    if bar is None:
        return interval.result("heldout_success_after")
    return interval.result("heldout_success_after", bar=f">= {bar:g}", holds=interval.mean >= bar)


def _levels(heldout: HeldoutResult, bars: Mapping[int, float]) -> Iterator[Result]:
    """Success by level; only the lowest if all levels have the same bar."""
    intervals = {level: heldout.interval(level=level) for level in levels_of(heldout.marks)}
    if len(set(bars.values())) == 1:
        lowest = min(heldout.rate(level=level) for level in intervals)
        yield _at_least("min_level_success_after", lowest, min(bars.values()))
        return
    for level, interval in intervals.items():
        is_met = interval.mean >= bars[level]
        yield interval.result(f"level_{level}_success_after", bar=f">= {bars[level]:g}", holds=is_met)


def _grpo_gain(facts: Facts, bar: float | None) -> Result:
    gain = (facts.after_grpo or facts.after).gain_over(facts.after_sft)
    if bar is None:
        return gain.result("gain_grpo")
    return gain.result("gain_grpo", bar=f">= {bar:.2f}, low > 0", holds=gain.mean >= bar and gain.low > 0)


def _release(
    name: str, release: Release | None, expected: str, max_tasks: int | None = None
) -> tuple[Result, Result]:
    if release is None:
        verdict = Result(f"{name}_verdict", "none", bar=expected, holds=False)
        return verdict, Result(f"{name}_canary_tasks", "none", "tasks")
    verdict = Result(f"{name}_verdict", release.state, bar=expected, holds=release.state == expected)
    tasks = float(release.evidence[-1].candidate_tasks) if release.evidence else 0.0
    if max_tasks is None:
        return verdict, Result(f"{name}_canary_tasks", tasks, "tasks")
    bar = f"<= {max_tasks}"
    return verdict, Result(f"{name}_canary_tasks", tasks, "tasks", bar=bar, holds=tasks <= max_tasks)


def _damage(facts: Facts) -> Result:
    gain = facts.damaged.gain_over(facts.healthy)
    drop = Interval(-gain.mean, -gain.high, -gain.low, gain.n)
    return drop.result("damaged_drop", bar="0.20 ± 0.05", holds=abs(drop.mean - 0.20) <= 0.05)


def _best_agent_share(facts: Facts) -> Result:
    shares = [share.probability for share in facts.shares if share.is_counted]
    if not shares:
        return Result("best_agent_share", "none", "share", bar=">= 0.7", holds=False)
    interval = Interval(sum(shares) / len(shares), min(shares), max(shares), len(shares))
    return interval.result("best_agent_share", bar=">= 0.7", holds=interval.mean >= 0.7)


def _floors(facts: Facts) -> tuple[Result, Result, Result]:
    count = min(floor.count for floor in facts.floors)
    oracle = min(floor.oracle for floor in facts.floors)
    nothing = max(floor.nothing for floor in facts.floors)
    random = max(floor.random for floor in facts.floors)
    return (
        Result("floor_success", nothing, "share", n=count, bar="<= 0", holds=nothing == 0.0),
        Result("oracle_success", oracle, "share", n=count, bar=">= 1", holds=oracle == 1.0),
        Result("random_success", random, "share", n=count, bar="<= 0.02", holds=random <= 0.02),
    )
