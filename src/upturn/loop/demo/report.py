"""The content of a finished demo's report, from its facts, its pool and its training runs."""

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from upturn import __version__
from upturn.interval import Interval, bootstrap_mean, paired_bootstrap
from upturn.loop.cycle import ReadinessReport
from upturn.loop.demo.demo import Facts
from upturn.loop.demo.results import Resources
from upturn.loop.evaluation import HeldoutResult, Mark, families_of, levels_of
from upturn.loop.run import Context
from upturn.pool.quality import COVERAGE_BARS
from upturn.records import Decision, Result
from upturn.report import (
    Canary,
    Change,
    ChangeKind,
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
"""Number of latest decisions in a routing share."""
SHARE_POINTS = 120
"""Number of points of the routing picture."""


def demo_content(
    context: Context, facts: Facts, run_facts: RunFacts, results: Sequence[Result], *, bars_note: str = ""
) -> ReportContent:
    """The content of the demo's report; ``bars_note``: that of its plan."""
    return ReportContent(
        title="Upturn demo",
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
        coverage=tuple(
            CoverageRow(share.name, share.covered, share.total, bar)
            for share, bar in zip(facts.coverage, COVERAGE_BARS.values(), strict=True)
        ),
        floors=_floors(facts),
        guardrails=(_guardrail(facts),),
        results=tuple(results),
        bars_note=bars_note,
        next_commands=_next_commands(context),
        notes=_notes(context, facts),
    )


def run_facts(context: Context, *, machine: str, resources: Resources, command: str) -> RunFacts:
    """The run behind the report."""
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


def _headline(facts: Facts) -> Headline:
    return Headline(
        before=Estimate(*facts.before.interval()),
        after=Estimate(*facts.after.interval()),
        gain=Estimate(*facts.after.gain_over(facts.before)),
        basis="held-out tasks (unseen templates, unseen worlds)",
        gain_sft=Estimate(*facts.after_sft.gain_over(facts.before)),
        gain_grpo=Estimate(*facts.after.gain_over(facts.after_sft)) if _stage(facts) == "GRPO" else None,
    )


def _measurements(facts: Facts) -> tuple[Measurement, ...]:
    return (
        _measurement("before", facts.before),
        _measurement("before", facts.before_greedy),
        _measurement("after SFT", facts.after_sft),
        _measurement("after GRPO", facts.after_grpo or facts.after),
        _measurement(f"after {_stage(facts)}", facts.after_greedy),
    )


def _stage(facts: Facts) -> str:
    """The training stage whose version is the candidate."""
    return facts.choice.chosen if facts.choice is not None else "GRPO"


def _measurement(stage: str, heldout: HeldoutResult) -> Measurement:
    levels = {mark.family: mark.level for mark in heldout.marks}
    return Measurement(
        stage=stage,
        sampling="greedy" if heldout.temperature == 0 else "sampled",
        overall=Estimate(*heldout.interval()),
        levels=tuple(
            Success(f"L{level}", Estimate(*heldout.interval(level=level)), level)
            for level in levels_of(heldout.marks)
        ),
        families=tuple(
            Success(family, Estimate(*heldout.interval(family=family)), levels[family])
            for family in families_of(heldout.marks)
        ),
    )


def _curves(context: Context) -> tuple[LearningCurve, ...]:
    """GRPO's learning curves: the reward of every iteration, and success in unseen worlds where evaluated."""
    from upturn.training.runs import read_curve

    curves = []
    for path in sorted((context.run_dir / "training").rglob("curve.jsonl")):
        if "grpo" not in path.parent.name:
            continue
        points = []
        tokens = 0.0
        for point in read_curve(path):
            tokens += point.metrics.get("written_tokens") or 0.0
            points.append(
                CurvePoint(
                    iteration=point.units,
                    reward=point.metrics.get("mean_return"),
                    unseen=_selection_score(point.metrics),
                    tokens=int(tokens),
                )
            )
        page = path.parent / PAGE_FILE
        link = page.relative_to(context.run_dir).as_posix() if page.exists() else ""
        curves.append(LearningCurve("GRPO", tuple(points), link))
    return tuple(curves)


def _selection_score(metrics: Mapping[str, float | None]) -> Estimate | None:
    score, tasks = metrics.get("score"), metrics.get("score_tasks")
    if score is None:
        return None
    n = None if tasks is None else int(tasks)
    return Estimate(score, metrics.get("score_low"), metrics.get("score_high"), n)


def _routing(context: Context, facts: Facts) -> Routing:
    decisions = list(context.pool.decisions(tenant=context.tenant))
    window: deque[str] = deque(maxlen=SHARE_WINDOW)
    step = max(1, len(decisions) // SHARE_POINTS)
    points = []
    for index, decision in enumerate(decisions, start=1):
        window.append(decision.chosen)
        if index % step == 0 or index == len(decisions):
            counts = Counter(window)
            shares = tuple(Share(version, count / len(window)) for version, count in sorted(counts.items()))
            points.append(RoutingPoint(index, shares))
    return Routing(
        points=tuple(points),
        measure=f"share of the last {SHARE_WINDOW} tasks",
        events=_events(decisions, facts),
        best_agent_share=_mean([share.probability for share in facts.shares if share.is_counted]),
    )


def _events(decisions: Sequence[Decision], facts: Facts) -> tuple[RoutingEvent, ...]:
    events = []
    for release, name in ((facts.release, "trained"), (facts.damaged_release, "damaged")):
        served = [
            index
            for index, decision in enumerate(decisions, start=1)
            if release is not None and decision.release == release.id
        ]
        if release is None or not served:
            continue
        events.append(RoutingEvent(served[0], f"{name} candidate enters", "start"))
        if release.state == "promoted":
            events.append(RoutingEvent(served[-1], f"{name} promoted", "promote"))
        elif release.state == "rolled_back":
            events.append(RoutingEvent(served[-1], f"{name} rolled back", "rollback"))
    return tuple(events)


def _canaries(context: Context, facts: Facts) -> tuple[Canary, ...]:
    threshold = context.config.canary.threshold
    titles = (("The trained candidate", facts.release), ("The damaged candidate", facts.damaged_release))
    return tuple(Canary(title, release, threshold) for title, release in titles if release is not None)


def _changes(before: HeldoutResult, after: HeldoutResult) -> tuple[Change, ...]:
    """Reward components, costs and effort, with paired differences over the tasks that have the value in both."""
    values = ((name, value) for mark in (*before.marks, *after.marks) for name, value in mark.rewards.items())
    components = dict.fromkeys(name for name, value in values if value is not None)
    rows: tuple[tuple[str, ChangeKind, Callable[[Mark], float | None]], ...] = (
        *((name, "reward", partial(_reward, name)) for name in components),
        ("errors per task", "cost", lambda mark: mark.costs.get("error")),
        ("safety violations per task", "cost", lambda mark: mark.costs.get("safety")),
    )
    changes = []
    for name, kind, value_of in rows:
        both = [(value_of(old), value_of(new)) for old, new in zip(before.marks, after.marks, strict=True)]
        pairs = [(old, new) for old, new in both if old is not None and new is not None]
        if pairs:  # a cost without values is omitted
            first, second = [old for old, _ in pairs], [new for _, new in pairs]
            bounds = (0.0, 1.0) if kind == "reward" else None
            difference = paired_bootstrap(second, first, seed=0, bounds=(-1.0, 1.0) if bounds else None)
            means = _mean(first, bounds), _mean(second, bounds)
            changes.append(Change(name, kind, *means, _estimate(difference)))
    efforts: tuple[tuple[str, Callable[[Mark], int]], ...] = (
        ("turns per success", lambda mark: mark.turns),
        ("written tokens per success", lambda mark: mark.written_tokens),
    )
    for name, effort in efforts:
        first, second = (
            [float(effort(mark)) for mark in result.marks if mark.is_success] for result in (before, after)
        )
        changes.append(Change(name, "effort", _mean(first), _mean(second)))
    return tuple(changes)


def _reward(name: str, mark: Mark) -> float:
    """The component's value; 0 where it is missing for one task only."""
    return mark.rewards.get(name) or 0.0


def _mean(values: Sequence[float], bounds: tuple[float, float] | None = None) -> Estimate | None:
    return _estimate(bootstrap_mean(values, seed=0, bounds=bounds)) if values else None


def _estimate(interval: Interval) -> Estimate:
    """Without limits if they are equal: that many equal values without known bounds say nothing about others."""
    if interval.low == interval.high:
        return Estimate(interval.mean, n=interval.n)
    return Estimate(*interval)


def _story(context: Context, facts: Facts) -> TaskStory | None:
    """The first held-out task of the highest level that failed before and succeeded after."""
    pairs = zip(facts.before.marks, facts.after.marks, strict=True)
    turned = [(old, new) for old, new in pairs if not old.is_success and new.is_success]
    if not turned:
        return None
    top = max(old.level for old, _ in turned)
    old, new = next(pair for pair in turned if pair[0].level == top)
    ids = [old.trajectory_id, new.trajectory_id]
    stored = list(context.pool.experiences_of(ids, tenant=context.tenant, has_tokens=False))
    task = stored[0].task
    environment = context.kit.environment(task)
    environment.reset(task)
    return TaskStory(
        task_id=task.id,
        family=task.family,
        level=task.level,
        instruction=task.instruction,
        attempts=tuple(
            transcript(item.trajectory, item.evaluation, stage=stage, initial_state=environment.state())
            for stage, item in zip(("before", "after"), stored, strict=True)
        ),
        chosen_because=f"the first of {len(turned)} held-out tasks that failed before and succeeded after, "
        f"among those of level {top}",
    )


def _lineage(facts: Facts) -> tuple[LineageStep, ...]:
    steps = []
    trained = facts.versions[1]
    if trained.snapshot is not None:
        steps.append(LineageStep("snapshot", trained.snapshot[:16], ("verified successes",)))
    steps.append(LineageStep("run", trained.run or "", ("SFT, then GRPO" if _stage(facts) == "GRPO" else "SFT",)))
    origin = (f"weights {trained.weights_hash[:12]}", f"from {trained.parent}")
    steps.append(LineageStep("version", trained.id, origin))
    if facts.release is not None:
        tasks = facts.release.evidence[-1].candidate_tasks
        details = (facts.release.state, f"after {tasks} candidate tasks")
        steps.append(LineageStep("release", facts.release.id, details))
    return tuple(steps)


def _readiness(report: ReadinessReport, production: ReadinessReport) -> tuple[ReadinessRow, ...]:
    production_checks = {check.name: check for check in production.checks}
    return tuple(
        ReadinessRow(
            name=check.name.replace("_", " "),
            measured=f"{check.value:g}" if isinstance(check.value, float | int) else check.value,
            threshold=check.bar or "",
            holds=bool(check.holds),
            production_threshold=production_checks[check.name].bar or "",
            production_holds=bool(production_checks[check.name].holds),
        )
        for check in report.checks
    )


def _floors(facts: Facts) -> tuple[FloorRow, ...]:
    return tuple(
        FloorRow(
            floor.family, *(Estimate(rate, n=floor.count) for rate in (floor.oracle, floor.nothing, floor.random))
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
    play = f".venv/bin/upturn env play {context.kit.name} --family {context.trained_families[-1]}"
    return (
        NextCommand(f".venv/bin/upturn release list --pool {pool}", "list the releases with their evidence"),
        NextCommand(f".venv/bin/upturn pool stats --pool {pool}", "show what the agents did, by agent and family"),
        NextCommand(play, "do one of the tasks yourself"),
    )


def _notes(context: Context, facts: Facts) -> tuple[str, ...]:
    n = len(facts.after.marks)
    untrained = " and ".join(family for family in context.families if family not in context.trained_families)
    served = (
        f"{untrained} are served but not trained: the rule-based agent solves them, which routing has to discover."
    )
    return (
        f"Held-out success: {n} tasks, the same number of every family, from templates and worlds that neither "
        "pre-training nor training used; one rollout each at the serving temperature. Intervals are 95 % by "
        "bootstrap over tasks; gains are paired task by task.",
        "GRPO's weights were selected on other tasks (training templates in unseen worlds): no choice depends on "
        "the held-out tasks.",
        *([] if facts.choice is None else [facts.choice.sentence]),
        *([served] if untrained else ()),
        "The damaged candidate is the serving version with noise on its weights, sized to cost about 20 points; it "
        "skipped validation by an audited override.",
    )
