"""The demo: the whole loop with three agents, then a damaged candidate that the canary must roll back.

All printed and drawn figures come from here, from the journal and from the pool.
"""

from collections import Counter

from upturn.config import ReadinessConfig
from upturn.deployment import Override, Validation
from upturn.errors import TrainingError
from upturn.loop.cycle import ReadinessReport, check_readiness, release, serve, train
from upturn.loop.demo.damaged_model import damage_version
from upturn.loop.demo.final_evaluation import FinalEvaluation, run_final_evaluation
from upturn.loop.demo.plan import DemoPlan
from upturn.loop.evaluation import (
    Floor,
    HeldoutResult,
    StageChoice,
    compare,
    evaluate_heldout,
    evaluate_version,
    evaluation_tasks,
    measure_floor,
)
from upturn.loop.run import Context
from upturn.pool import coverage, readiness
from upturn.records import AgentVersion, Release, record

MIN_LEAD = 0.30
"""Lead in a family from which its routing share counts."""
MIN_DECISIONS = 100
"""Number of decisions in a family from which its routing share counts."""


@record
class FamilyShare:
    """The best agent of a family, and the probability with which routing chooses it."""

    family: str
    best: str
    """Id of the best version."""
    lead: float
    """Its success minus the next best agent's, on the same fresh tasks."""
    probability: float
    """Probability at the end of the demo."""
    decisions: int
    is_counted: bool
    """Whether the lead and the number of decisions are large enough to expect routing to have learned it."""


@record
class CoverageShare:
    """How much of something was recorded."""

    name: str
    covered: int
    total: int


@record
class Facts:
    """The results of a finished demo."""

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
    """Result of the serving version that was damaged."""
    damaged: HeldoutResult
    damaged_release: Release
    release: Release | None
    """None = the candidate did not pass validation."""
    final_evaluation: FinalEvaluation | None
    """Of the released version, or else the incumbent; None = the plan has none."""
    after_grpo: HeldoutResult | None = None
    """None = GRPO's version is the candidate: ``after``."""
    choice: StageChoice | None = None
    """Between the versions after SFT and after GRPO; None = GRPO made no version."""


def run_demo(context: Context, plan: DemoPlan) -> Facts:
    """Runs or resumes the demo to its end."""
    floors = _measure_floors(context, plan.floor_tasks)
    serve(context, "serve", context.config.tasks.count)
    ready = check_readiness(context, "readiness")
    if not ready.is_ready:
        raise TrainingError(f"nothing to train on: the demo's [readiness] is not met by {ready.failed()}")
    production = context.journal.record_step(
        "readiness-production", ReadinessReport, lambda: _production_readiness(context)
    )
    trained = train(context, "")
    assert trained.after_sft is not None  # the demo's configuration trains with SFT
    before_greedy = evaluate_heldout(context, "heldout-before-greedy", trained.incumbent, 0.0)
    after_greedy = evaluate_heldout(context, "heldout-after-greedy", trained.candidate, 0.0)
    validation = compare(context, "validation", trained.before, trained.after)
    ground = _ground(validation, plan)
    released = None
    if ground is not None:
        released = release(context, "release", (trained.incumbent, trained.candidate), ground)
    serve(context, "serve-after", plan.tasks_after)
    is_new = released is not None and released.state == "promoted"
    healthy, result = (trained.candidate, trained.after) if is_new else (trained.incumbent, trained.before)
    final = None
    if plan.final_tasks:
        final = context.journal.record_step(
            "work", FinalEvaluation, lambda: run_final_evaluation(context, healthy, plan.final_tasks)
        )
    damaged_version = context.journal.record_step(
        "damage", AgentVersion, lambda: damage_version(context, healthy, result, "damaged")
    )
    damaged = evaluate_heldout(context, "exam-damaged", damaged_version)
    skip = Override("upturn demo", "a version damaged on purpose, to show what the canary does with it")
    damaged_release = release(context, "release-damaged", (healthy, damaged_version), skip)
    serve(context, "serve-last", plan.tasks_last)
    arena = _run_arena(context, plan.arena_tasks)
    return Facts(
        before=trained.before,
        before_greedy=before_greedy,
        after_sft=trained.after_sft,
        after=trained.after,
        after_greedy=after_greedy,
        validation=validation,
        floors=floors,
        readiness=ready,
        production_readiness=production,
        arena=arena,
        shares=family_shares(context, arena),
        coverage=_coverage(context),
        versions=(trained.incumbent, trained.candidate, damaged_version),
        healthy=result,
        release=released,
        damaged=damaged,
        damaged_release=damaged_release,
        final_evaluation=final,
        after_grpo=trained.after_grpo,
        choice=trained.choice,
    )


def _ground(validation: Validation, plan: DemoPlan) -> Validation | Override | None:
    """The ground on which the candidate enters its canary; None = it does not enter one."""
    if validation.verdict == "pass":
        return validation
    if plan.canary is None:
        return None
    return Override("upturn demo --size tiny", "too few tasks for validation; every step is to be shown")


@record
class _Floors:
    floors: tuple[Floor, ...]


@record
class _Arena:
    heldout_results: tuple[HeldoutResult, ...]


def _measure_floors(context: Context, count: int) -> tuple[Floor, ...]:
    def work() -> _Floors:
        context.progress.stage("Check that the verifiers cannot be cheated", len(context.families))
        floors = []
        for family in context.families:
            floors.append(measure_floor(context.kit, family, seed=context.seed, count=count))
            context.progress.advance(oracle=floors[-1].oracle, random=floors[-1].random)
        return _Floors(tuple(floors))

    return context.journal.record_step("floors", _Floors, work).floors


def _production_readiness(context: Context) -> ReadinessReport:
    checked = readiness(context.pool, ReadinessConfig(), tenant=context.tenant)
    return ReadinessReport(tuple(checked.results()), checked.is_ready)


def _run_arena(context: Context, per_family: int) -> tuple[HeldoutResult, ...]:
    """Results of every agent in service on the same fresh tasks of every served family."""

    def work() -> _Arena:
        count = per_family * len(context.families)
        tasks = evaluation_tasks(context.kit, context.families, count, seed=context.seed, split="train")
        agents = context.router.registry.agents()
        context.progress.stage("Compare all agents on the same fresh tasks", len(agents))
        results: list[HeldoutResult] = []
        for name, served in agents.items():
            purpose = context.purpose(f"arena/{name}")
            results.append(evaluate_version(context.runtime, served.incumbent, tasks, purpose, pool=context.pool))
            context.progress.advance(1, **{result.agent_version: result.rate() for result in results})
        return _Arena(tuple(results))

    return context.journal.record_step("arena", _Arena, work).heldout_results


def family_shares(context: Context, arena: tuple[HeldoutResult, ...]) -> tuple[FamilyShare, ...]:
    """The best agent of each served family and the probability with which it is chosen now."""
    families = {task.id: task.family for task in context.pool.tasks(tenant=context.tenant)}
    decisions = Counter(families[decision.task_id] for decision in context.pool.decisions(tenant=context.tenant))
    shares = []
    for family in context.families:
        rates = sorted(((result.rate(family=family), result.agent_version) for result in arena), reverse=True)
        (top, best), (second, _) = rates[0], rates[1]
        task = next(context.kit.tasks(seed=context.seed, split="train", families=[family]))
        alternatives = context.router.decide(task).alternatives
        probability = sum(option.probability for option in alternatives if option.agent_version == best)
        is_counted = top - second >= MIN_LEAD and decisions[family] >= MIN_DECISIONS
        shares.append(FamilyShare(family, best, top - second, probability, decisions[family], is_counted))
    return tuple(shares)


def _coverage(context: Context) -> tuple[CoverageShare, ...]:
    in_service = [served.incumbent.id for served in context.router.registry.agents().values()]
    shares = coverage(context.pool, tenant=context.tenant, in_service=in_service)
    return tuple(
        CoverageShare(name, share.part, share.whole)
        for name, share in (
            ("routing decisions", shares.routing),
            ("executions", shares.execution),
            ("evaluations", shares.evaluation),
            ("agents", shares.agents),
        )
    )
