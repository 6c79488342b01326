"""The demo: the whole loop with three agents, then a damaged candidate that the canary must catch.

Everything that is printed or drawn afterwards comes from here, from the journal and from the pool.
"""

from collections import Counter

from upturn.config import ReadinessConfig
from upturn.deployment import Override, Validation
from upturn.errors import TrainingError
from upturn.loop.cycle import ReadinessReport, Trained, check_readiness, release, serve, train
from upturn.loop.demo.degraded_model import damaged_version
from upturn.loop.demo.final_evaluation import Work, work
from upturn.loop.demo.plan import DemoPlan
from upturn.loop.evaluation import (
    Floor,
    HeldoutResult,
    compare,
    evaluate_heldout,
    evaluate_version,
    evaluation_tasks,
    measure_floor,
)
from upturn.loop.run import Context
from upturn.pool import coverage, readiness
from upturn.records import AgentVersion, Release, record

LEAD = 0.30
"""By how much an agent must lead in a family for the routing share to count there."""
ENOUGH_DECISIONS = 100
"""Decisions that a family needs for the same."""


@record
class FamilyShare:
    """Who leads a family, and how surely routing knows it."""

    family: str
    best: str
    """Id of the leading version."""
    lead: float
    """Success over the next best agent's, on the same fresh tasks."""
    probability: float
    """With which routing chooses the leader at the end."""
    decisions: int
    is_counted: bool
    """True: the lead and the number of decisions are large enough to expect routing to know."""


@record
class CoverageShare:
    """How much of something was recorded."""

    name: str
    covered: int
    total: int


@record
class Facts:
    """All that a finished demo found out."""

    before: HeldoutResult
    before_greedy: HeldoutResult
    after_sft: HeldoutResult
    after: HeldoutResult
    after_greedy: HeldoutResult
    validation: Validation
    floors: tuple[Floor, ...]
    readiness: ReadinessReport
    production_readiness: ReadinessReport
    arena: tuple[HeldoutResult, ...]
    """Every agent in service at the end, on the same fresh tasks of every served family."""
    shares: tuple[FamilyShare, ...]
    coverage: tuple[CoverageShare, ...]
    versions: tuple[AgentVersion, ...]
    """Incumbent, trained, damaged."""
    healthy: HeldoutResult
    """Of the version that was damaged: the one that served then."""
    damaged: HeldoutResult
    damaged_release: Release
    release: Release | None
    """None = validation refused the candidate."""
    work: Work | None
    """How the version that was released, or else the incumbent, works; None = the plan does not ask."""


def run_demo(context: Context, plan: DemoPlan) -> Facts:
    """Runs or resumes the demo to its end."""
    floors = _floors(context, plan.floor_tasks)
    serve(context, "serve", context.config.tasks.count)
    ready = check_readiness(context, "readiness")
    if not ready.is_ready:
        raise TrainingError(f"nothing to train from: the demo's [readiness] is not met by {ready.failed()}")
    production = context.journal.record_step(
        "readiness-production", ReadinessReport, lambda: _production_readiness(context)
    )
    trained = train(context, "")
    before_greedy = evaluate_heldout(context, "heldout-before-greedy", trained.incumbent, 0.0)
    after_greedy = evaluate_heldout(context, "heldout-after-greedy", trained.candidate, 0.0)
    validation = compare(context, "validation", trained.before, trained.after)
    ground = _ground(validation, plan)
    released = None
    if ground is not None:
        released = release(context, "release", (trained.incumbent, trained.candidate), ground)
    serve(context, "serve-after", plan.tasks_after)
    is_new = released is not None and released.state == "promoted"
    healthy, marks = (trained.candidate, trained.after) if is_new else (trained.incumbent, trained.before)
    worked = None
    if plan.work:
        worked = context.journal.record_step("work", Work, lambda: work(context, healthy, plan.work))
    bad = context.journal.record_step(
        "damage", AgentVersion, lambda: damaged_version(context, healthy, marks, "damaged")
    )
    damaged = evaluate_heldout(context, "exam-damaged", bad)
    skip = Override("upturn demo", "a version damaged on purpose, to show what the canary does with it")
    caught = release(context, "release-damaged", (healthy, bad), skip)
    serve(context, "serve-last", plan.tasks_last)
    arena = _arena(context, plan.arena_tasks)
    return Facts(
        before=trained.before,
        before_greedy=before_greedy,
        after_sft=_sure(trained),
        after=trained.after,
        after_greedy=after_greedy,
        validation=validation,
        floors=floors,
        readiness=ready,
        production_readiness=production,
        arena=arena,
        shares=family_shares(context, arena),
        coverage=_coverage(context),
        versions=(trained.incumbent, trained.candidate, bad),
        healthy=marks,
        release=released,
        damaged=damaged,
        damaged_release=caught,
        work=worked,
    )


def _ground(validation: Validation, plan: DemoPlan) -> Validation | Override | None:
    """On what the candidate enters its canary; None = it does not."""
    if validation.verdict == "pass":
        return validation
    if plan.canary is None:
        return None
    return Override("upturn demo --size tiny", "too few tasks for validation; every step is to be shown")


def _sure(trained: Trained) -> HeldoutResult:
    assert trained.after_sft is not None  # the demo's configuration trains with SFT
    return trained.after_sft


@record
class _Floors:
    floors: tuple[Floor, ...]


@record
class _Exams:
    heldout_results: tuple[HeldoutResult, ...]


def _floors(context: Context, count: int) -> tuple[Floor, ...]:
    def work() -> _Floors:
        context.progress.stage("Check that the verifiers cannot be cheated", len(context.families))
        found = []
        for family in context.families:
            found.append(measure_floor(context.kit, family, seed=context.seed, count=count))
            context.progress.advance(oracle=found[-1].oracle, random=found[-1].random)
        return _Floors(tuple(found))

    return context.journal.record_step("floors", _Floors, work).floors


def _production_readiness(context: Context) -> ReadinessReport:
    found = readiness(context.pool, ReadinessConfig(), tenant=context.tenant)
    return ReadinessReport(tuple(found.results()), found.is_ready)


def _arena(context: Context, per_family: int) -> tuple[HeldoutResult, ...]:
    """Every agent in service on the same fresh tasks of the kind that is served."""

    def work() -> _Exams:
        count = per_family * len(context.families)
        tasks = evaluation_tasks(context.kit, context.families, count, seed=context.seed, split="train")
        agents = context.router.registry.agents()
        context.progress.stage("Compare all agents on the same fresh tasks", len(agents))
        found = []
        for name, served in agents.items():
            purpose = context.purpose(f"arena/{name}")
            found.append(evaluate_version(context.runtime, served.incumbent, tasks, purpose, pool=context.pool))
            context.progress.advance(1, **{heldout.agent_version: heldout.rate() for heldout in found})
        return _Exams(tuple(found))

    return context.journal.record_step("arena", _Exams, work).heldout_results


def family_shares(context: Context, arena: tuple[HeldoutResult, ...]) -> tuple[FamilyShare, ...]:
    """For each served family the leading agent and the probability with which it is chosen now."""
    asked = {task.id: task.family for task in context.pool.tasks(tenant=context.tenant)}
    decisions = Counter(asked[each.task_id] for each in context.pool.decisions(tenant=context.tenant))
    found = []
    for family in context.families:
        rates = sorted(((heldout.rate(family=family), heldout.agent_version) for heldout in arena), reverse=True)
        (top, best), (second, _) = rates[0], rates[1]
        task = next(context.kit.tasks(seed=context.seed, split="train", families=[family]))
        alternatives = context.router.decide(task).alternatives
        probability = sum(each.probability for each in alternatives if each.agent_version == best)
        is_counted = top - second >= LEAD and decisions[family] >= ENOUGH_DECISIONS
        found.append(FamilyShare(family, best, top - second, probability, decisions[family], is_counted))
    return tuple(found)


def _coverage(context: Context) -> tuple[CoverageShare, ...]:
    in_service = [served.incumbent.id for served in context.router.registry.agents().values()]
    found = coverage(context.pool, tenant=context.tenant, in_service=in_service)
    return tuple(
        CoverageShare(name, share.part, share.whole)
        for name, share in (
            ("routing decisions", found.routing),
            ("executions", found.execution),
            ("evaluations", found.evaluation),
            ("agents", found.agents),
        )
    )
