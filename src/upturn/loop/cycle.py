"""One cycle of the loop as durable steps: serve, check the evidence, train, validate, release.

The journal holds the result of every step. An interrupted step is run again from its start and finds the records
it has stored. So a run killed at any point ends like an uninterrupted one with the same seed.
"""

from dataclasses import replace
from typing import NamedTuple, cast

from upturn.deployment import (
    OPEN_STATES,
    History,
    Override,
    Validation,
    check_free,
    history_of,
    release_status,
    start,
)
from upturn.errors import ConfigError, ReleaseError
from upturn.loop.evaluation import (
    HeldoutResult,
    StageChoice,
    choose_stage,
    compare,
    evaluate_heldout,
    warn_of_few_tasks,
)
from upturn.loop.live_release import begin_release, is_next_stored, observe, observe_open, serve_wave
from upturn.loop.rollouts import check_sampler
from upturn.loop.run import Context
from upturn.loop.trainers import (
    algorithm,
    family_weights,
    limits_summary,
    take_training_snapshot,
    train_grpo,
    train_sft,
    write_stage_card,
)
from upturn.pool import current_state, readiness
from upturn.records import AgentVersion, JsonValue, Release, Result, Snapshot, record
from upturn.training.algorithms.grpo import GrpoSettings

WAVE = 96
"""Maximum number of tasks routed together: enough to fill the engine, few enough that routing learns often."""


@record
class ReadinessReport:
    """The readiness checks before training."""

    checks: tuple[Result, ...]
    is_ready: bool

    def failed(self) -> str:
        """Comma-separated names of the failed checks."""
        return ", ".join(check.name for check in self.checks if not check.holds)


class Trained(NamedTuple):
    """The trained version, with the held-out evaluations before, between and after."""

    incumbent: AgentVersion
    before: HeldoutResult
    snapshot: Snapshot | None
    """None = no supervised training."""
    after_sft: HeldoutResult | None
    candidate: AgentVersion
    """The version of the chosen stage; the incumbent if no new version was made."""
    after: HeldoutResult
    """Of the candidate."""
    limits: str = ""
    """How cost limits ended RL training, and which weights are kept; empty = they did not."""
    after_grpo: HeldoutResult | None = None
    """None = RL training made no version."""
    choice: StageChoice | None = None
    """None = there were not two stages to choose from."""

    @property
    def is_new(self) -> bool:
        """Whether a new version was made."""
        return self.candidate.id != self.incumbent.id


def serve(context: Context, name: str, count: int) -> None:
    """Serves ``count`` tasks of the run's stream."""

    def work() -> JsonValue:
        context.progress.stage(f"Serve {count} tasks through the arbiter", count)
        done = successes = 0
        while done < count:
            wave = serve_wave(context, min(wave_size(context), count - done))
            if not wave:
                break
            observe_open(context, wave)
            done += len(wave)
            successes += sum(served.evaluation.is_success for served in wave)
            context.progress.advance(len(wave), success=successes / done)
        context.in_service.sync()
        context.learner.save()
        return context.routing_state()

    context.restore_routing(context.journal.json_step(name, work))


def wave_size(context: Context) -> int:
    """Number of tasks routed together: ``WAVE``, or less if all agents have load caps that leave less room."""
    name = context.kit.name
    caps = [agent.load_cap for agent in context.config.agents if name in (agent.environments or (name,))]
    capped = [cap for cap in caps if cap is not None]
    return min(WAVE, sum(capped)) if capped and len(capped) == len(caps) else WAVE


def check_readiness(context: Context, name: str) -> ReadinessReport:
    """Checks the configured prerequisites of training."""

    def work() -> ReadinessReport:
        context.progress.stage("Check the evidence")
        checked = readiness(context.pool, context.config.readiness, tenant=context.tenant)
        return ReadinessReport(tuple(checked.results()), checked.is_ready)

    report = context.journal.record_step(name, ReadinessReport, work)
    for check in report.checks:
        context.progress.note(f"{check.name}: {check.value} ({check.bar})")
    return report


def train(context: Context, prefix: str) -> Trained:
    """Trains the agent to be improved, and evaluates it before, between and after.

    If RL training was never within its cost limits, the version before it is the candidate. If both stages made a
    version, the better one on validation tasks is (``choose_stage``).
    """
    agent = context.config.improved_agent
    assert agent is not None
    incumbent = context.router.registry.served(agent.name).incumbent
    warn_of_few_tasks(context, f"{prefix}heldout-before", incumbent)
    before = evaluate_heldout(context, f"{prefix}heldout-before", incumbent)
    candidate, snapshot, after_sft, after_grpo = incumbent, None, None, None
    stages: dict[str, tuple[AgentVersion, HeldoutResult]] = {}
    if "sft" in context.config.loop.train:
        others = context.config.pool.learn_from
        snapshot = context.journal.record_step(
            f"{prefix}snapshot",
            Snapshot,
            lambda: take_training_snapshot(context, others=others),
        )
        training_snapshot = snapshot
        candidate = context.journal.record_step(
            f"{prefix}sft", AgentVersion, lambda: train_sft(context, incumbent, training_snapshot, f"{prefix}sft")
        )
        after_sft = evaluate_heldout(context, f"{prefix}heldout-sft", candidate)
        stages["SFT"] = candidate, after_sft
    limits = ""
    if "grpo" in context.config.loop.train:
        parent, weights = candidate, family_weights(after_sft or before)
        candidate = context.journal.record_step(
            f"{prefix}grpo", AgentVersion, lambda: train_grpo(context, parent, weights, f"{prefix}grpo")
        )
        summary = limits_summary(context, f"{prefix}grpo")
        if summary:
            limits = f"RL training: {summary}"
            context.progress.note(limits)
        if candidate.id != parent.id:
            after_grpo = evaluate_heldout(context, f"{prefix}heldout-after", candidate)
            stages["GRPO"] = candidate, after_grpo
    trained = Trained(incumbent, before, snapshot, after_sft, incumbent, before, limits, after_grpo)
    return _with_candidate(context, prefix, trained, stages)


def _with_candidate(
    context: Context, prefix: str, trained: Trained, stages: dict[str, tuple[AgentVersion, HeldoutResult]]
) -> Trained:
    """With the chosen stage's version as the candidate, and its card; without a stage, unchanged."""
    if not stages:
        return trained
    name, choice = next(reversed(stages)), None
    if len(stages) > 1:
        versions = {stage: version for stage, (version, _) in stages.items()}
        choice = choose_stage(context, prefix, versions, context.config.section(GrpoSettings).cost_limits)
        name = choice.chosen
    candidate, after = stages[name]
    results = {stage: result for stage, (_, result) in stages.items()}
    write_stage_card(context, (trained.incumbent, candidate), {"before": trained.before} | results, choice)
    return trained._replace(candidate=candidate, after=after, choice=choice)


def release(
    context: Context, name: str, versions: tuple[AgentVersion, AgentVersion], ground: Validation | Override
) -> Release:
    """Runs the canary of (incumbent, candidate) on fresh tasks to its verdict, or until an operator holds it.

    A held one goes on with the tasks that are served later. Raises ReleaseError if another release of the agent is
    open, or the incumbent does not serve any more.
    """
    incumbent, candidate = versions

    def work() -> JsonValue:
        settings = context.config.canary
        context.pool.append(*versions)
        state = begin_release(context, start(incumbent, candidate, settings, ground, history=history))
        context.progress.stage(f"Canary of {candidate.id}", settings.max_candidate_episodes)
        # Waves of an interrupted step are in the pool, and mostly counted; others may have counted tasks meanwhile.
        while (is_repeat := is_next_stored(context)) or _goes_on(context, state.id):
            wave = serve_wave(context, wave_size(context))
            state = observe(context.pool, state.id, wave, settings, is_repeat=is_repeat)
            if state.evidence:
                last = state.evidence[-1]
                context.progress.advance(
                    sum(item.decision.chosen == candidate.id for item in wave),
                    e_better=last.log_e_better,
                    e_worse=last.log_e_worse,
                )
        state = current_state(context.pool, Release, state.id) or state
        context.in_service.sync()
        context.progress.note(f"canary of {candidate.id}: {release_status(state)}, {explanation(state)}")
        context.learner.save()
        return {"release": state.id, "routing": context.routing_state()}

    history = _history(context, f"{name}/history", incumbent, candidate)
    outcome = context.journal.json_step(name, work)
    assert isinstance(outcome, dict)
    context.restore_routing(outcome["routing"])
    return next(known for known in context.pool.states(Release) if known.id == outcome["release"])


def open_release(context: Context, prefix: str) -> str:
    """Why the agent cannot be improved now: an operator's release of it is open; empty = it can be."""
    agent = context.config.improved_agent
    assert agent is not None

    def work() -> JsonValue:
        try:
            check_free(agent.name, context.in_service.open_releases())
        except ReleaseError as exc:
            return str(exc)
        return ""

    return str(context.journal.json_step(f"{prefix}open-release", work))


def _history(context: Context, name: str, incumbent: AgentVersion, candidate: AgentVersion) -> History:
    """The agent's earlier releases in the pool, as they were when the step first ran."""

    def work() -> JsonValue:
        history = history_of(context.pool.states(Release), incumbent.id, candidate.id, incumbent.agent)
        return [history.attempt, history.repeat]

    attempt, repeat = cast(list[int], context.journal.json_step(name, work))
    return History(attempt, repeat)


def _goes_on(context: Context, release_id: str) -> bool:
    """Whether the release takes evidence now; operators may have changed it since the last wave."""
    state = current_state(context.pool, Release, release_id)
    return state is not None and state.state in OPEN_STATES and not state.is_held


def explanation(release: Release) -> str:
    """The reason of the release's state: the operators' if they held or decided it, else the evidence's."""
    last = release.evidence[-1] if release.evidence else None
    is_decided_by_rule = last is not None and last.verdict != "hold"
    if last is None or release.is_held or (release.state not in OPEN_STATES and not is_decided_by_rule):
        return release.reason
    return last.reason


class CycleOutcome(NamedTuple):
    """How one cycle of the loop ended."""

    number: int
    summary: str
    """What was released, or why nothing was."""
    readiness: ReadinessReport
    trained: Trained | None = None
    """None = nothing was trained."""
    validation: Validation | None = None
    release: Release | None = None
    """None = no candidate entered a canary."""

    def results(self) -> list[Result]:
        """The cycle's figures, each name with the cycle's number."""
        prefix = f"cycle_{self.number}_"
        results = [replace(check, name=f"{prefix}{check.name}") for check in self.readiness.checks]
        if self.trained is not None:
            before, after = self.trained.before, self.trained.after
            results.append(before.interval().result(f"{prefix}success_before"))
            if self.trained.is_new:
                results.append(after.interval().result(f"{prefix}success_after"))
                results.append(after.gain_over(before).result(f"{prefix}gain"))
            if self.trained.choice is not None:
                results += self.trained.choice.results(prefix)
        if self.validation is not None:
            results.append(Result(f"{prefix}validation", self.validation.verdict))
        if self.release is not None:
            results.append(Result(f"{prefix}release", self.release.state))
        return results


def run_cycle(context: Context, number: int) -> CycleOutcome:
    """Runs one cycle; it ends early if the evidence is insufficient or the candidate does not pass validation."""
    prefix = f"cycle-{number}/"
    context.position.cycle = number
    if context.config.traffic is not None:
        raise ConfigError(
            [
                "[traffic] has no effect in the loop, which trains on the tasks that it serves; omit it, or use "
                "`upturn train`"
            ]
        )
    if "grpo" in context.config.loop.train and not context.journal.has_finished(f"{prefix}grpo"):
        algorithm("grpo").check(context.config)
        check_sampler(context)
    context.runtime.keep_only(context.service.versions().values())  # engines of earlier cycles' trials are large
    serve(context, f"{prefix}serve", context.config.tasks.count)
    report = check_readiness(context, f"{prefix}readiness")
    if not context.config.trains:
        return CycleOutcome(number, "no training is configured: tasks were routed, evaluated and stored", report)
    if not report.is_ready:
        return CycleOutcome(number, f"nothing was trained: [readiness] is not met by {report.failed()}", report)
    if is_open := open_release(context, prefix):
        return CycleOutcome(number, f"nothing was trained: {is_open}", report)
    trained = train(context, prefix)
    if not trained.is_new:
        return CycleOutcome(number, f"no new version; {trained.limits}", report, trained)
    notes = [trained.limits, trained.choice.sentence if trained.choice else ""]
    suffix = "".join(f"; {note}" for note in notes if note)
    validation = compare(context, f"{prefix}validation", trained.before, trained.after)
    if validation.verdict != "pass":
        summary = f"not released, validation {validation.summary}{suffix}"
        return CycleOutcome(number, summary, report, trained, validation)
    try:
        released = release(context, f"{prefix}release", (trained.incumbent, trained.candidate), validation)
    except ReleaseError as exc:
        return CycleOutcome(number, f"not released: {exc}{suffix}", report, trained, validation)
    summary = f"{released.candidate}: {release_status(released)}, {explanation(released)}{suffix}"
    return CycleOutcome(number, summary, report, trained, validation, released)
