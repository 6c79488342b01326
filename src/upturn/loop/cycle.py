"""One turn of the loop as durable steps: serve, look at the evidence, train, validate, release.

Every step's result stands in the journal; a step that was interrupted is run again from its start and finds what it
had stored already. So a run that was killed anywhere ends as an undisturbed one with the same seed.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from upturn.deployment import Override, RegistryTraffic, Validation, apply_traffic, start
from upturn.deployment import canary as canaries
from upturn.loop.canary_traffic import Reserved
from upturn.loop.evaluation import HeldoutResult, compare, evaluate_heldout
from upturn.loop.rollouts import check_sampler
from upturn.loop.run import Context
from upturn.loop.service import Served
from upturn.loop.trainers import family_weights, limits_summary, take_training_snapshot, train_grpo, train_sft
from upturn.pool import readiness
from upturn.records import AgentVersion, JsonValue, Release, ReleaseEvidence, Result, Snapshot, record

WAVE = 96
"""Tasks that are routed together at most: enough to fill the engine, few enough that routing learns often."""


@record
class ReadinessReport:
    """What the pool held before training."""

    checks: tuple[Result, ...]
    is_ready: bool

    def lacking(self) -> str:
        """Names of the checks that do not hold, for a sentence."""
        return ", ".join(check.name for check in self.checks if not check.holds)


class Trained(NamedTuple):
    """What training made, with the held-out evaluations on the way."""

    incumbent: AgentVersion
    before: HeldoutResult
    snapshot: Snapshot | None
    """None = no supervised training."""
    after_sft: HeldoutResult | None
    candidate: AgentVersion
    """The incumbent itself where no new version was made."""
    after: HeldoutResult
    practice: str = ""
    """How limits on costs ended practice, and what was kept; empty = they did not."""

    @property
    def is_new(self) -> bool:
        """False: nothing was kept, and no version was made."""
        return self.candidate.id != self.incumbent.id


def serve(context: Context, name: str, count: int) -> None:
    """Serves ``count`` tasks of the run's stream."""

    def work() -> JsonValue:
        context.progress.stage(f"Serve {count} tasks through the arbiter", count)
        left, successes = count, 0
        while left > 0:
            served = context.service.serve(context.next_tasks(min(wave_size(context), left)))
            if not served:
                break
            left -= len(served)
            successes += sum(each.evaluation.is_success for each in served)
            context.progress.advance(len(served), success=successes / (count - left))
        return context.routing_state()

    context.restore_routing(context.journal.json_step(name, work))


def wave_size(context: Context) -> int:
    """Tasks routed together: ``WAVE``, or fewer where the load caps of all agents leave no room for so many."""
    name = context.kit.name
    caps = [agent.load_cap for agent in context.config.agents if name in (agent.environments or (name,))]
    capped = [cap for cap in caps if cap is not None]
    return min(WAVE, sum(capped)) if capped and len(capped) == len(caps) else WAVE


def check_readiness(context: Context, name: str) -> ReadinessReport:
    """Whether the evidence meets the configured prerequisites of training."""

    def work() -> ReadinessReport:
        context.progress.stage("Check the evidence")
        found = readiness(context.pool, context.config.readiness, tenant=context.tenant)
        return ReadinessReport(tuple(found.results()), found.is_ready)

    report = context.journal.record_step(name, ReadinessReport, work)
    for check in report.checks:
        context.progress.note(f"{check.name}: {check.value} ({check.bar})")
    return report


def train(context: Context, prefix: str) -> Trained:
    """Trains the agent that is to be improved, and examines it before, between and after.

    Where training was never within its limits on costs, the version before it goes on, and its evaluation counts.
    """
    agent = context.config.improved_agent
    assert agent is not None
    incumbent = context.router.registry.served(agent.name).incumbent
    before = evaluate_heldout(context, f"{prefix}heldout-before", incumbent)
    candidate, snapshot, after_sft = incumbent, None, None
    if "sft" in context.config.loop.train:
        snapshot = context.journal.record_step(
            f"{prefix}snapshot", Snapshot, lambda: take_training_snapshot(context)
        )
        taken = snapshot
        candidate = context.journal.record_step(
            f"{prefix}sft", AgentVersion, lambda: train_sft(context, incumbent, taken, f"{prefix}sft")
        )
        after_sft = evaluate_heldout(context, f"{prefix}heldout-sft", candidate)
    after, practice = after_sft or before, ""
    if "grpo" in context.config.loop.train:
        parent, weights = candidate, family_weights(after)
        candidate = context.journal.record_step(
            f"{prefix}grpo", AgentVersion, lambda: train_grpo(context, parent, weights, f"{prefix}grpo")
        )
        limits = limits_summary(context, f"{prefix}grpo")
        if limits:
            practice = f"practice: {limits}"
            context.progress.note(practice)
        if candidate.id != parent.id:
            after = evaluate_heldout(context, f"{prefix}heldout-after", candidate)
    return Trained(incumbent, before, snapshot, after_sft, candidate, after, practice)


def release(
    context: Context,
    name: str,
    versions: tuple[AgentVersion, AgentVersion],
    ground: Validation | Override,
) -> Release:
    """The canary of (incumbent, candidate) on fresh tasks, to its verdict."""
    incumbent, candidate = versions

    def work() -> JsonValue:
        settings = context.config.canary
        known = {version.id: version for version in versions}
        traffic = RegistryTraffic(context.router.registry, known.__getitem__)
        state = start(incumbent, candidate, settings, ground)
        earlier = {past.evidence for past in context.pool.states(Release, state.id)}
        remember = _remember_new(context, earlier)
        remember(state)
        apply_traffic(state, traffic)
        context.progress.stage(f"Canary of {candidate.id}", settings.max_candidate_tasks)
        rule = canaries.Canary(settings)
        while state.state in ("canary", "watch"):
            served = _serve_canary(context, incumbent.agent)
            ours = [
                canaries.Served("candidate" if each.decision.arm == "candidate" else "control", each.evaluation)
                for each in served
                if each.decision.release == state.id
            ]
            state = rule.step(state, canaries.Block.of(ours, safety_costs=("safety",)))
            remember(state)
            apply_traffic(state, traffic)
            last = state.evidence[-1]
            context.progress.advance(
                sum(each.arm == "candidate" for each in ours),
                e_better=last.log_e_better,
                e_worse=last.log_e_worse,
            )
        context.progress.note(f"canary of {candidate.id}: {state.state}, {state.evidence[-1].reason}")
        return {"release": state.id, "routing": context.routing_state()}

    stored = context.journal.json_step(name, work)
    assert isinstance(stored, dict)
    context.restore_routing(stored["routing"])
    return next(found for found in context.pool.states(Release) if found.id == stored["release"])


def _serve_canary(context: Context, agent: str) -> list[Served]:
    """A wave of fresh tasks, a share of them reserved for the agent under canary."""
    context.router.policy = Reserved(context.policy, agent)
    try:
        return context.service.serve(context.next_tasks(wave_size(context)))
    finally:
        context.router.policy = context.policy


class CycleOutcome(NamedTuple):
    """How one turn of the loop ended."""

    number: int
    words: str
    """For people: what was released, or why nothing was."""
    readiness: ReadinessReport
    trained: Trained | None = None
    """None = nothing was trained."""
    validation: Validation | None = None
    release: Release | None = None
    """None = nothing entered a canary."""

    def results(self) -> list[Result]:
        """The cycle's figures, each name with the cycle's number."""
        prefix = f"cycle_{self.number}"
        found = [replace(check, name=f"{prefix}_{check.name}") for check in self.readiness.checks]
        if self.trained is not None:
            found += _exam_results(prefix, self.trained)
        if self.validation is not None:
            found.append(Result(f"{prefix}_validation", self.validation.verdict))
        if self.release is not None:
            found.append(Result(f"{prefix}_release", self.release.state))
        return found


def _exam_results(prefix: str, trained: Trained) -> list[Result]:
    """Success before, and where a version was made, success after and the gain."""
    heldout_results = {"success_before": trained.before.interval()}
    if trained.is_new:
        heldout_results["success_after"] = trained.after.interval()
        heldout_results["gain"] = trained.after.gain_over(trained.before)
    return [
        Result(f"{prefix}_{name}", each.mean, "share", each.low, each.high, each.n)
        for name, each in heldout_results.items()
    ]


def run_cycle(context: Context, number: int) -> CycleOutcome:
    """One whole turn: it stops early when the evidence is not enough or the candidate does not pass."""
    prefix = f"cycle-{number}/"
    context.position.cycle = number
    if "grpo" in context.config.loop.train and not context.journal.has_finished(f"{prefix}grpo"):
        check_sampler(context)
    context.runtime.keep_only(context.service.versions().values())  # engines of earlier cycles' trials are large
    serve(context, f"{prefix}serve", context.config.tasks.count)
    report = check_readiness(context, f"{prefix}readiness")
    if not context.config.trains:
        return CycleOutcome(number, "nothing is set to train: tasks were routed, judged and kept", report)
    if not report.is_ready:
        words = f"nothing was trained: [readiness] is not met by {report.lacking()}"
        return CycleOutcome(number, words, report)
    trained = train(context, prefix)
    if not trained.is_new:
        return CycleOutcome(number, f"no new version; {trained.practice}", report, trained)
    told = f"; {trained.practice}" if trained.practice else ""
    validation = compare(context, f"{prefix}validation", trained.before, trained.after)
    if validation.verdict != "pass":
        words = f"not released, validation {validation.summary}{told}"
        return CycleOutcome(number, words, report, trained, validation)
    versions = (trained.incumbent, trained.candidate)
    released = release(context, f"{prefix}release", versions, validation)
    words = f"{released.candidate}: {released.state}, {released.evidence[-1].reason}{told}"
    return CycleOutcome(number, words, report, trained, validation, released)


def _remember_new(context: Context, earlier: set[tuple[ReleaseEvidence, ...]]) -> Callable[[Release], None]:
    """Stores a release's state, unless an interrupted run had stored it: the history holds each state once."""

    def remember(state: Release) -> None:
        if state.evidence not in earlier:
            context.pool.append(state)

    return remember
