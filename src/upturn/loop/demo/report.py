"""A finished run as the content of its report: pictures and tables from facts, pool and journal, nothing else."""

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Literal

from upturn import __version__
from upturn.deployment import Interval, bootstrap_mean, paired_bootstrap
from upturn.loop.cycle import ReadinessReport
from upturn.loop.demo.demo import Facts
from upturn.loop.demo.results import Resources
from upturn.loop.evaluation import HeldoutResult, Mark, families_of, levels_of
from upturn.loop.run import Context
from upturn.records import Decision, Result
from upturn.report import (
    Canary,
    Change,
    CoverageRow,
    CurvePoint,
    Estimate,
    FloorRow,
    Guardrail,
    GuardrailRow,
    Headline,
    LearningCurve,
    LineageStep,
    Measurement,
    NextCommand,
    ReadinessRow,
    ReportContent,
    Routing,
    RoutingEvent,
    RoutingPoint,
    RunFacts,
    Share,
    Success,
    TaskStory,
    transcript,
)
from upturn.report.training import PAGE_FILE

SHARE_WINDOW = 96
"""Decisions that a routing share is taken over."""
SHARE_POINTS = 120
"""Points of the routing picture."""


def demo_content(context: Context, facts: Facts, run_facts: RunFacts, results: Sequence[Result]) -> ReportContent:
    """The demo's whole report."""
    return ReportContent(
        title="Upturn demo: an agent gets better by working",
        facts=run_facts,
        headline=_headline(facts),
        measurements=_measurements(facts),
        curves=_curves(context),
        routing=_routing(context, facts),
        canaries=_canaries(context, facts),
        changes=_changes(facts.before, facts.after),
        story=_story(context, facts),
        lineage=_lineage(facts),
        readiness=_readiness(facts.readiness, facts.production_readiness),
        coverage=_coverage(facts),
        floors=_floors(facts),
        guardrails=(_guardrail(facts),),
        results=tuple(results),
        next_commands=_next_commands(context),
        notes=_notes(context, facts),
    )


def run_facts(context: Context, *, machine: str, resources: Resources, command: str) -> RunFacts:
    """What made the report."""
    return RunFacts(
        run=context.run_id,
        command=command,
        seed=context.seed,
        machine=machine,
        version=__version__,
        config_hash=context.config.config_hash,
        wall_seconds=resources.wall_seconds,
        peak_rss_mb=resources.peak_rss_mb,
    )


def _estimate(found: Interval) -> Estimate:
    return Estimate(found.mean, found.low, found.high, found.n)


def _headline(facts: Facts) -> Headline:
    return Headline(
        before=_estimate(facts.before.interval()),
        after=_estimate(facts.after.interval()),
        gain=_estimate(facts.after.gain_over(facts.before)),
        basis="held-out tasks (unseen templates, unseen worlds)",
        gain_sft=_estimate(facts.after_sft.gain_over(facts.before)),
        gain_grpo=_estimate(facts.after.gain_over(facts.after_sft)),
    )


def _measurements(facts: Facts) -> tuple[Measurement, ...]:
    found = [
        _measurement("before", facts.before),
        _measurement("before", facts.before_greedy),
        _measurement("after SFT", facts.after_sft),
        _measurement("after GRPO", facts.after),
        _measurement("after GRPO", facts.after_greedy),
    ]
    return tuple(found)


def _measurement(stage: str, heldout: HeldoutResult) -> Measurement:
    return Measurement(
        stage=stage,
        sampling="greedy" if heldout.temperature == 0 else "sampled",
        overall=_estimate(heldout.interval()),
        levels=tuple(
            Success(f"L{level}", _estimate(heldout.interval(level=level)), level)
            for level in levels_of(heldout.marks)
        ),
        families=tuple(
            Success(family, _estimate(heldout.interval(family=family)), _level_of(heldout, family))
            for family in families_of(heldout.marks)
        ),
    )


def _level_of(heldout: HeldoutResult, family: str) -> int:
    return next(mark.level for mark in heldout.marks if mark.family == family)


def _curves(context: Context) -> tuple[LearningCurve, ...]:
    """GRPO's course: the reward of every iteration, success in unseen worlds where it was watched."""
    from upturn.training.runs import read_curve

    found = []
    for path in sorted((context.run_dir / "training").rglob("curve.jsonl")):
        if "grpo" not in path.parent.name:
            continue
        points = []
        tokens = 0.0
        for point in read_curve(path):
            tokens += point.metrics.get("written_tokens") or 0.0
            score = point.metrics.get("score")
            points.append(
                CurvePoint(
                    iteration=point.units,
                    reward=point.metrics.get("mean_return"),
                    unseen=None if score is None else _watched(score, point.metrics),
                    tokens=int(tokens),
                )
            )
        page = path.parent / PAGE_FILE
        link = page.relative_to(context.run_dir).as_posix() if page.exists() else ""
        found.append(LearningCurve("GRPO", tuple(points), link))
    return tuple(found)


def _watched(score: float, metrics: Mapping[str, float | None]) -> Estimate:
    tasks = metrics.get("score_tasks")
    return Estimate(
        score, metrics.get("score_low"), metrics.get("score_high"), None if tasks is None else int(tasks)
    )


def _routing(context: Context, facts: Facts) -> Routing:
    decisions = list(context.pool.decisions(tenant=context.tenant))
    window: deque[str] = deque(maxlen=SHARE_WINDOW)
    every = max(1, len(decisions) // SHARE_POINTS)
    points = []
    for index, decision in enumerate(decisions, start=1):
        window.append(decision.chosen)
        if index % every == 0 or index == len(decisions):
            counts = Counter(window)
            shares = tuple(Share(version, count / len(window)) for version, count in sorted(counts.items()))
            points.append(RoutingPoint(index, shares))
    counted = [share.probability for share in facts.shares if share.is_counted]
    best = bootstrap_mean(counted, seed=0) if counted else None
    return Routing(
        points=tuple(points),
        measure=f"share of the last {SHARE_WINDOW} tasks",
        events=_events(decisions, facts),
        best_agent_share=None if best is None else _estimate(best),
    )


def _events(decisions: Sequence[Decision], facts: Facts) -> tuple[RoutingEvent, ...]:
    events = []
    for release, name in ((facts.release, "trained"), (facts.damaged_release, "damaged")):
        if release is None:
            continue
        served = [index for index, each in enumerate(decisions, start=1) if each.release == release.id]
        if not served:
            continue
        events.append(RoutingEvent(served[0], f"{name} candidate enters", "start"))
        if release.state == "promoted":
            events.append(RoutingEvent(served[-1], f"{name} promoted", "promote"))
        elif release.state == "rolled_back":
            events.append(RoutingEvent(served[-1], f"{name} rolled back", "rollback"))
    return tuple(events)


def _canaries(context: Context, facts: Facts) -> tuple[Canary, ...]:
    threshold = context.config.canary.threshold
    titled = (("The trained candidate", facts.release), ("The damaged candidate", facts.damaged_release))
    return tuple(Canary(title, release, threshold) for title, release in titled if release is not None)


def _changes(before: HeldoutResult, after: HeldoutResult) -> tuple[Change, ...]:
    """Reward components, costs and effort, each with its paired difference over the tasks that both have it of."""
    known = ((name, value) for mark in (*before.marks, *after.marks) for name, value in mark.rewards.items())
    components = dict.fromkeys(name for name, value in known if value is not None)
    rows: tuple[tuple[str, Literal["reward", "cost"], Callable[[Mark], float | None]], ...] = (
        *((name, "reward", partial(_reward, name)) for name in components),
        ("errors per task", "cost", lambda mark: mark.costs.get("error")),
        ("safety violations per task", "cost", lambda mark: mark.costs.get("safety")),
    )
    found = []
    for name, kind, of in rows:
        both = [(of(old), of(new)) for old, new in zip(before.marks, after.marks, strict=True)]
        pairs = [(old, new) for old, new in both if old is not None and new is not None]
        if pairs:  # a cost that nothing was judged for is not shown
            first, second = [old for old, _ in pairs], [new for _, new in pairs]
            difference = _estimate(paired_bootstrap(second, first, seed=0))
            found.append(Change(name, kind, _mean(first), _mean(second), difference))
    for name, spent in (("turns per success", _turns), ("written tokens per success", _tokens)):
        old = [spent(mark) for mark in before.marks if mark.is_success]
        new = [spent(mark) for mark in after.marks if mark.is_success]
        found.append(Change(name, "effort", _mean(old), _mean(new)))
    return tuple(found)


def _reward(name: str, mark: Mark) -> float:
    """A component that is missing for one task earned nothing there; one that is missing for all is not shown."""
    return mark.rewards.get(name) or 0.0


def _turns(mark: Mark) -> float:
    return float(mark.turns)


def _tokens(mark: Mark) -> float:
    return float(mark.written_tokens)


def _mean(values: Sequence[float]) -> Estimate | None:
    return _estimate(bootstrap_mean(values, seed=0)) if values else None


def _story(context: Context, facts: Facts) -> TaskStory | None:
    """The first held-out task of the highest level that failed before and succeeded after."""
    pairs = list(zip(facts.before.marks, facts.after.marks, strict=True))
    turned = [(old, new) for old, new in pairs if not old.is_success and new.is_success]
    if not turned:
        return None
    top = max(old.level for old, _ in turned)
    old, new = next(pair for pair in turned if pair[0].level == top)
    stored = list(
        context.pool.experiences_of([old.trajectory_id, new.trajectory_id], tenant=context.tenant, has_tokens=False)
    )
    task = stored[0].task
    environment = context.kit.environment(task)
    environment.reset(task)
    attempts = tuple(
        transcript(each.trajectory, each.evaluation, stage=stage, initial_state=environment.state())
        for stage, each in zip(("before", "after"), stored, strict=True)
    )
    return TaskStory(
        task_id=task.id,
        family=task.family,
        level=task.level,
        instruction=task.instruction,
        attempts=attempts,
        chosen_because=f"the first of {len(turned)} held-out tasks that failed before and succeeded after, "
        f"among those of level {top}",
    )


def _lineage(facts: Facts) -> tuple[LineageStep, ...]:
    steps = []
    trained = facts.versions[1]
    if trained.snapshot is not None:
        steps.append(LineageStep("snapshot", trained.snapshot[:16], ("verified successes",)))
    steps.append(LineageStep("run", trained.run or "", ("SFT, then GRPO",)))
    steps.append(
        LineageStep("version", trained.id, (f"weights {trained.weights_hash[:12]}", f"from {trained.parent}"))
    )
    if facts.release is not None:
        last = facts.release.evidence[-1]
        steps.append(
            LineageStep(
                "release", facts.release.id, (facts.release.state, f"after {last.candidate_tasks} candidate tasks")
            )
        )
    return tuple(steps)


def _readiness(own: ReadinessReport, production: ReadinessReport) -> tuple[ReadinessRow, ...]:
    theirs: Mapping[str, Result] = {check.name: check for check in production.checks}
    return tuple(
        ReadinessRow(
            name=check.name.replace("_", " "),
            measured=f"{check.value:g}" if isinstance(check.value, float | int) else check.value,
            threshold=check.bar or "",
            holds=bool(check.holds),
            production_threshold=theirs[check.name].bar or "",
            production_holds=bool(theirs[check.name].holds),
        )
        for check in own.checks
    )


def _coverage(facts: Facts) -> tuple[CoverageRow, ...]:
    bars = (1.0, 0.95, 0.90, 1.0)
    return tuple(
        CoverageRow(share.name, share.covered, share.total, bar)
        for share, bar in zip(facts.coverage, bars, strict=True)
    )


def _floors(facts: Facts) -> tuple[FloorRow, ...]:
    return tuple(
        FloorRow(
            floor.family,
            Estimate(floor.oracle, n=floor.count),
            Estimate(floor.nothing, n=floor.count),
            Estimate(floor.random, n=floor.count),
        )
        for floor in facts.floors
    )


def _guardrail(facts: Facts) -> Guardrail:
    validation = facts.validation
    rows = tuple(
        GuardrailRow(
            family=row.name,
            difference=Estimate(row.difference, row.low, row.high, row.n),
            is_shown_worse=row.worse_p < 0.05,
            incumbent=row.incumbent,
            candidate=row.candidate,
        )
        for row in validation.families
    )
    strong = validation.strong
    return Guardrail(
        rows=rows,
        is_passed=validation.verdict == "pass",
        rule="A family shown worse (Holm over families), or a pooled loss of more than 5 points where the "
        "incumbent succeeds at 80 % or more, blocks the candidate.",
        pooled=None if strong is None else Estimate(strong.difference, strong.low, strong.high, strong.n),
        is_kept_back=facts.release is None,
    )


def _next_commands(context: Context) -> tuple[NextCommand, ...]:
    pool = context.run_dir / "pool.db"
    return (
        NextCommand(f".venv/bin/upturn release list --pool {pool}", "the releases, with every step's evidence"),
        NextCommand(f".venv/bin/upturn pool stats --pool {pool}", "what the agents did, by agent and family"),
        NextCommand(
            f".venv/bin/upturn env play {context.kit.name} --family {context.trained_families[-1]}",
            "do one of the tasks yourself",
        ),
    )


def _notes(context: Context, facts: Facts) -> tuple[str, ...]:
    n = len(facts.after.marks)
    untrained = " and ".join(family for family in context.families if family not in context.trained_families)
    served = (
        f"{untrained} are served but not trained: the rule-based agent solves them, which routing is to find out."
    )
    return (
        f"Held-out success: {n} tasks, every family alike, from templates and worlds that neither pre-training nor "
        "training saw; each attempted once at the serving temperature. Intervals are 95 % by bootstrap over tasks; "
        "gains are paired task by task.",
        "The best weights of GRPO were chosen on other tasks (training templates in unseen worlds): the held-out "
        "tasks took part in no choice.",
        *([served] if untrained else ()),
        "The damaged candidate is the version that served, with noise on its weights, sized to cost about 20 "
        "points; it skipped validation by an audited override.",
    )
