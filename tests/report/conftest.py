"""A realistic report of an invented run, for tests only."""

import math
import random

import pytest

from upturn.records import GateResult, Release, ReleaseEvidence, Result
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
    StateChange,
    Success,
    TaskStory,
    Transcript,
    TranscriptTurn,
)
from upturn.report.content import Sampling

FAMILIES = (
    ("mail_reply", 1, 0.71, 0.93, 0.97),
    ("event_create", 1, 0.64, 0.88, 0.95),
    ("sheet_lookup", 1, 0.58, 0.83, 0.96),
    ("mail_triage", 2, 0.35, 0.69, 0.90),
    ("event_move", 2, 0.42, 0.63, 0.88),
    ("sheet_sum", 2, 0.31, 0.60, 0.91),
    ("meeting_from_mail", 3, 0.22, 0.44, 0.82),
    ("report_to_the_whole_team", 3, 0.17, 0.41, 0.79),
    ("budget_check", 3, 0.12, 0.38, 0.77),
)


def share(value: float, n: int) -> Estimate:
    half = 1.96 * math.sqrt(value * (1 - value) / n)
    return Estimate(value=value, low=max(0.0, value - half), high=min(1.0, value + half), n=n)


def measurement(stage: str, sampling: Sampling, column: int, shift: float = 0.0) -> Measurement:
    values = [(family[0], family[1], float(family[column]) + shift) for family in FAMILIES]
    families = tuple(Success(name=name, success=share(value, 50), level=level) for name, level, value in values)
    levels = tuple(
        Success(
            name=f"level {level}", success=share(sum(v for _, at, v in values if at == level) / 3, 150), level=level
        )
        for level in (1, 2, 3)
    )
    overall = share(sum(value for _, _, value in values) / len(values), 450)
    return Measurement(stage=stage, sampling=sampling, overall=overall, levels=levels, families=families)


def curve() -> LearningCurve:
    noise = random.Random(1)
    points = []
    for iteration in range(1, 61):
        level = 0.62 + 0.27 * (1 - math.exp(-iteration / 22))
        unseen = share(round(level + 0.01, 3), 150) if iteration % 10 == 0 else None
        points.append(
            CurvePoint(
                iteration=iteration,
                reward=round(level + noise.gauss(0, 0.025), 4),
                unseen=unseen,
                tokens=iteration * 19_250,
            )
        )
    return LearningCurve(algorithm="GRPO", points=tuple(points))


def release(candidate: str, p_candidate: float, p_control: float, *, blocks: int, is_good: bool) -> Release:
    noise = random.Random(7)
    evidence = []
    counts = [0, 0, 0, 0]
    better = worse = 0.0
    for block in range(blocks):
        stage = 0 if counts[0] < 30 else 1
        arm = 3 if stage == 0 else 15
        control = 27 if stage == 0 else 15
        counts[0] += arm
        counts[1] += sum(noise.random() < p_candidate for _ in range(arm))
        counts[2] += control
        counts[3] += sum(noise.random() < p_control for _ in range(control))
        step = (0.05 if stage == 0 else 0.32) + noise.gauss(0, 0.09)
        better += step if is_good else noise.gauss(-0.02, 0.01)
        worse += noise.gauss(-0.02, 0.01) if is_good else step
        is_last = block == blocks - 1
        evidence.append(
            ReleaseEvidence(
                block=block,
                stage=stage,
                candidate_tasks=counts[0],
                candidate_successes=counts[1],
                control_tasks=counts[2],
                control_successes=counts[3],
                missing=0,
                log_e_better=max(better, 3.9) if is_last and is_good else better,
                log_e_worse=max(worse, 3.9) if is_last and not is_good else worse,
                log_e_mismatch=-0.4,
                verdict=("promote" if is_good else "rollback") if is_last else "hold",
                reason="evidence 49 that the candidate is better passed 40" if is_last else "not decided yet",
            )
        )
    return Release(
        id=f"release-{candidate}",
        agent="nano",
        incumbent="nano@base",
        candidate=f"nano@{candidate}",
        stages=(0.1, 0.5, 1.0),
        state="promoted" if is_good else "rolled_back",
        stage=1,
        evidence=tuple(evidence),
        validation="passed: +50.1 points paired, no family shown worse" if is_good else "",
        is_validation_skipped=not is_good,
        reason="" if is_good else "demo: to show that a bad version is caught",
    )


def routing() -> Routing:
    points = []
    for task in range(20, 2001, 20):
        new = 0.0 if task < 900 else min(0.86, 0.05 + 0.81 * (1 - math.exp(-(task - 900) / 250)))
        bad = 0.05 if 1500 <= task <= 1640 else 0.0
        base = (1 - new - bad) * (0.35 + 0.2 * min(task, 900) / 900)
        rules = (1 - new - bad) * (0.40 - 0.03 * min(task, 900) / 900)
        shares = {"nano@base": base, "rules@1": rules, "hot@1": 1 - new - bad - base - rules, "nano@grpo-60": new}
        if bad:
            shares["nano@damaged"] = bad
        points.append(
            RoutingPoint(task=task, shares=tuple(Share(agent_version=k, share=v) for k, v in shares.items()))
        )
    events = (
        RoutingEvent(task=900, label="canary starts", kind="start"),
        RoutingEvent(task=1180, label="promoted", kind="promote"),
        RoutingEvent(task=1500, label="damaged enters", kind="start"),
        RoutingEvent(task=1640, label="rolled back", kind="rollback"),
    )
    return Routing(
        points=tuple(points),
        measure="share of the last 100 tasks",
        events=events,
        best_agent_share=Estimate(value=0.84, n=6),
    )


def story() -> TaskStory:
    before = Transcript(
        stage="before",
        agent_version="nano@base",
        turns=(
            TranscriptTurn(text='mail.search {"sender": "ines"}', observation="m7 Ines: Budget review, Thu 14:00"),
            TranscriptTurn(
                text='calendar.create {"title": "Budget review", "start": "Thu 14:00"}',
                observation="parameter 'hours' is missing",
                code="missing_parameter",
            ),
            TranscriptTurn(text='user.finish {"text": "done"}', observation="bye"),
        ),
        outcome="finished",
        verdict="failure",
        gates=(
            GateResult(name="event_exists", is_passed=False, detail="no event 'Budget review' on Thu 14:00"),
            GateResult(name="nothing_else_touched", is_passed=True),
        ),
        changes=(),
    )
    after = Transcript(
        stage="after",
        agent_version="nano@grpo-60",
        turns=(
            TranscriptTurn(text='mail.search {"sender": "ines"}', observation="m7 Ines: Budget review, Thu 14:00"),
            TranscriptTurn(
                text='calendar.create {"title": "Budget review", "start": "Thu 14:00", "hours": 1}',
                observation="created e12",
            ),
            TranscriptTurn(
                text='mail.reply {"id": "m7", "text": "Booked for Thu 14:00"}', observation="sent m31 to ines"
            ),
            TranscriptTurn(text='user.finish {"text": "Booked."}', observation="bye"),
        ),
        outcome="finished",
        verdict="success",
        gates=(
            GateResult(name="event_exists", is_passed=True),
            GateResult(name="nothing_else_touched", is_passed=True),
        ),
        changes=(
            StateChange(
                path="calendar.events.e12", before=None, after='{"title": "Budget review", "start": "Thu 14:00"}'
            ),
            StateChange(
                path="mail.sent.m31", before=None, after='{"to": ["ines"], "text": "Booked for Thu 14:00"}'
            ),
            StateChange(path="mail.inbox.m7.replied", before="false", after="true"),
        ),
    )
    return TaskStory(
        task_id="heldout/meeting_from_mail/00017",
        family="meeting_from_mail",
        level=3,
        instruction="Ines proposed a time for the budget review. Put it into my calendar and tell her.",
        attempts=(before, after),
        chosen_because="the first held-out level-3 task that failed before and succeeded after",
    )


def changes() -> tuple[Change, ...]:
    return (
        Change(
            name="task success",
            kind="reward",
            before=Estimate(0.391, 0.35, 0.44, 450),
            after=Estimate(0.883, 0.85, 0.91, 450),
            difference=Estimate(0.492, 0.44, 0.54, 450),
        ),
        Change(
            name="efficiency",
            kind="reward",
            before=Estimate(0.71, 0.68, 0.74, 176),
            after=Estimate(0.83, 0.81, 0.85, 397),
            difference=Estimate(0.12, 0.08, 0.16, 170),
        ),
        Change(name="politeness", kind="reward", before=None, after=Estimate(0.5, n=12)),
        Change(
            name="safety violations",
            kind="cost",
            before=Estimate(0.004, 0.0, 0.011, 450),
            after=Estimate(0.002, 0.0, 0.007, 450),
            difference=Estimate(-0.002, -0.009, 0.004, 450),
            unit="a task",
        ),
        Change(
            name="refused actions",
            kind="cost",
            before=Estimate(0.61, 0.53, 0.70, 450),
            after=Estimate(0.09, 0.06, 0.12, 450),
            difference=Estimate(-0.52, -0.61, -0.43, 450),
            unit="a task",
        ),
        Change(
            name="turns per success",
            kind="effort",
            before=Estimate(4.62, 4.3, 4.95, 176),
            after=Estimate(4.11, 3.95, 4.27, 397),
            difference=Estimate(-0.51, -0.83, -0.2, 170),
        ),
        Change(
            name="tokens per success",
            kind="effort",
            before=Estimate(118.4, 109.2, 128.0, 176),
            after=Estimate(117.2, 112.0, 122.9, 397),
            difference=Estimate(-1.2, -9.8, 7.4, 170),
        ),
    )


def results() -> tuple[Result, ...]:
    return (
        Result(name="wall_seconds", value=287.4, unit="s", bar="<= 480", holds=True),
        Result(name="peak_rss_mb", value=1412.0, unit="MB", bar="<= 3000", holds=True),
        Result(name="heldout_success_before", value=0.3911, low=0.346, high=0.436, n=450),
        Result(name="heldout_after_sft", value=0.6433, low=0.599, high=0.688, n=450),
        Result(name="heldout_success_after", value=0.8833, low=0.854, high=0.913, n=450, bar=">= 0.85", holds=True),
        Result(name="gain", value=0.4922, low=0.442, high=0.544, n=450, bar="low > 0.25", holds=True),
        Result(name="min_level_success_after", value=0.7933, n=150, bar=">= 0.75", holds=True),
        Result(name="release_verdict", value="promote", bar="promote", holds=True),
        Result(name="best_agent_share", value=0.68, n=6, bar=">= 0.70", holds=False),
    )


def build() -> ReportContent:
    before, sft, after = (measurement(name, "sampled", column) for name, column in STAGES)
    return ReportContent(
        title="Demo: an office agent improves itself",
        facts=RunFacts(
            run="demo-0003",
            command="upturn demo --seed 0",
            seed=0,
            machine="x86_64, 2 cores, 7.8 GB, Linux",
            version="0.1.0",
            config_hash="5d1f0c3a9e",
            wall_seconds=287.4,
            peak_rss_mb=1412.3,
        ),
        headline=Headline(
            before=before.overall,
            after=after.overall,
            gain=Estimate(0.4922, 0.442, 0.544, 450),
            basis="held-out tasks (unseen templates and unseen seeds, 150 of each level)",
            gain_sft=Estimate(0.2522, 0.204, 0.3, 450),
            gain_grpo=Estimate(0.24, 0.196, 0.284, 450),
        ),
        measurements=(
            before,
            sft,
            after,
            *(measurement(name, "greedy", column, 0.01) for name, column in STAGES),
        ),
        curves=(curve(),),
        routing=routing(),
        canaries=(
            Canary("The trained candidate", release("grpo-60", 0.88, 0.55, blocks=18, is_good=True), 40.0),
            Canary("The damaged candidate", release("damaged", 0.66, 0.88, blocks=19, is_good=False), 40.0),
        ),
        changes=changes(),
        story=story(),
        lineage=(
            LineageStep(
                "snapshot", "9f31c0de", ("1,043 verified successes", "of 2,010 trajectories", "tenant default")
            ),
            LineageStep("run", "demo-0003/grpo", ("SFT 240 steps, GRPO 60 iterations", "seed 0")),
            LineageStep("version", "nano@grpo-60", ("parent nano@base", "weights 4be1a7…")),
            LineageStep("release", "release-grpo-60", ("promoted after 240 candidate tasks",)),
        ),
        readiness=(
            ReadinessRow("points", "2,010", "≥ 500", True, "≥ 10,000", False),
            ReadinessRow("clean share", "98.2 %", "≥ 90 %", True, "≥ 95 %", True),
            ReadinessRow("categories", "9", "≥ 6", True, "≥ 20", False),
            ReadinessRow("private data removed", "100 %", "100 %", True, "100 %", True),
        ),
        coverage=(
            CoverageRow("routing decisions", 2010, 2010, 1.0),
            CoverageRow("executions", 2006, 2010, 0.95),
            CoverageRow("evaluations", 2006, 2010, 0.9),
            CoverageRow("agents", 3, 3, 1.0),
        ),
        floors=tuple(
            FloorRow(family[0], share(1.0, 200), share(0.0, 200), share(0.005 * (index % 3), 200))
            for index, family in enumerate(FAMILIES)
        ),
        guardrails=(
            Guardrail(
                rows=tuple(
                    GuardrailRow(name, Estimate(a - b, a - b - 0.13, a - b + 0.13, 50), False, b, a)
                    for name, _, b, _, a in FAMILIES
                ),
                is_passed=True,
                rule="Blocks when a family is shown worse, or when the pooled lower limit falls under −5 points.",
                pooled=Estimate(0.031, -0.012, 0.07, 90),
            ),
        ),
        bars_note="The bars of gain are for longer runs.",
        results=results(),
        next_commands=(
            NextCommand("upturn route explain --run demo-0003", "why each task went to the agent it went to"),
            NextCommand("upturn loop run --config upturn.toml", "the same loop on your own tasks and agents"),
            NextCommand("upturn pool stats --run demo-0003", "what the evidence consists of"),
        ),
        notes=(
            "Intervals are 95 % percentile bootstrap intervals over tasks (2,000 resamples).",
            "Before and after are compared on the same tasks with the same seeds.",
        ),
    )


STAGES = (("before", 2), ("after SFT", 3), ("after GRPO", 4))


@pytest.fixture(scope="session")
def content() -> ReportContent:
    """A report with every part."""
    return build()


@pytest.fixture(scope="session")
def bare() -> ReportContent:
    """The least a report can be made from."""
    facts = RunFacts(
        run="loop-1", command="upturn loop run", seed=3, machine="a machine", version="0.1.0", config_hash="abc"
    )
    return ReportContent(title="My own agents", facts=facts)
