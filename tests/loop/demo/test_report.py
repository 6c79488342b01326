"""The report's content comes from a run's records: every figure can be recounted in the pool."""

import importlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from upturn.loop.cycle import check_readiness, release, serve
from upturn.loop.demo.demo import Facts
from upturn.loop.demo.plan import BRIEF
from upturn.loop.demo.report import SHARE_WINDOW, demo_content, run_facts
from upturn.loop.demo.results import Resources, demo_results
from upturn.loop.evaluation.evaluate import HeldoutResult, compare, evaluate_heldout
from upturn.loop.evaluation.stage_choice import Stage, StageChoice
from upturn.loop.run.context import Context
from upturn.records import AgentVersion, Decision
from upturn.report import Estimate, ReportContent, read_content, write_content, write_report

BETTER = AgentVersion(
    "adder", "better", "callable", model="toy_desk:solver", weights_hash="0123456789abcdef", parent="adder@base",
    snapshot="snapshot-0123456789", run="run",
)  # fmt: skip
WORSE = AgentVersion("adder", "worse", "callable", model="toy_desk:refuser")


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Context, Facts, ReportContent]]:
    """A run in which a better version is promoted and a worse one rolled back, with its report."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parent.parent))
        desk, toy = importlib.import_module("toy_desk"), importlib.import_module("toy_facts")
        config = desk.with_canary(desk.config(("adder", "refuser")), stages=(0.5, 1.0))
        run_dir = tmp_path_factory.mktemp("reported") / "run"
        with desk.opened(run_dir, config) as context:
            facts = run_toy_demo(desk, toy, context)
            curve = run_dir / "training" / "grpo" / "curve.jsonl"
            curve.parent.mkdir(parents=True)
            curve.write_text(
                '{"units": 0, "steps": 0, "score": 0.25}\n'
                '{"units": 1, "steps": 2, "mean_return": 0.5, "written_tokens": 100.0}\n'
                '{"units": 2, "steps": 4, "mean_return": 0.75, "written_tokens": 40.0, "score": 0.5}\n'
            )
            (run_dir / "training" / "sft").mkdir()
            (run_dir / "training" / "sft" / "curve.jsonl").write_text('{"units": 1, "steps": 1, "loss": 2.0}\n')
            resources = Resources(12.5, 300.0)
            about = run_facts(context, machine="a desk", resources=resources, command="upturn demo")
            yield context, facts, demo_content(context, facts, about, demo_results(facts, resources, BRIEF))


def run_toy_demo(desk: ModuleType, toy: ModuleType, context: Context) -> Facts:
    incumbent = context.router.registry.served("adder").incumbent
    serve(context, "serve", 96)
    ready = check_readiness(context, "readiness")
    before = evaluate_heldout(context, "before", incumbent)
    after = evaluate_heldout(context, "after", BETTER)
    validation = compare(context, "validation", before, after)
    promoted = release(context, "release", (incumbent, BETTER), validation)
    rolled_back = release(context, "release-damaged", (BETTER, WORSE), desk.GROUND)
    facts: Facts = replace(
        toy.FACTS,
        before=before,
        before_greedy=replace(before, temperature=0.0),
        after_sft=before,
        after=after,
        after_greedy=replace(after, temperature=0.0),
        validation=validation,
        readiness=ready,
        production_readiness=replace(
            ready, checks=tuple(replace(check, bar="more", holds=False) for check in ready.checks)
        ),
        versions=(incumbent, BETTER, WORSE),
        healthy=after,
        damaged=evaluate_heldout(context, "damaged", WORSE),
        damaged_release=rolled_back,
        release=promoted,
    )
    return facts


def decisions(context: Context) -> list[Decision]:
    return list(context.pool.decisions(tenant="default"))


def close(estimate: Estimate | None, value: float, n: int) -> bool:
    return estimate is not None and estimate.value == pytest.approx(value) and estimate.n == n


def test_intervals_of_equal_outcomes_have_a_width(reported: tuple[Context, Facts, ReportContent]) -> None:
    """32 of 32 after, 16 of 16 sums before: exact limits, so that charts have whiskers."""
    _, _, content = reported
    assert content.headline is not None
    assert content.headline.after.low == pytest.approx(0.025 ** (1 / 32))
    intervals = [
        item.success for measured in content.measurements for item in (*measured.levels, *measured.families)
    ]
    intervals += [row.difference for guardrail in content.guardrails for row in guardrail.rows]
    assert all(item.low is not None and item.high is not None and item.low < item.high for item in intervals)
    costs = [change for change in content.changes if change.kind == "cost"]
    assert all(change.difference is None or change.difference.low != change.difference.high or
               change.difference.low is None for change in costs)  # fmt: skip


def test_the_report_names_the_chosen_stage(reported: tuple[Context, Facts, ReportContent]) -> None:
    context, facts, _ = reported
    stages = (Stage("SFT", "adder@sft", 0.9, 0.8, 1.0, 30), Stage("GRPO", "adder@better", 0.5, 0.4, 0.6, 30))
    chosen = replace(
        facts, after_sft=facts.after, after_grpo=facts.before, choice=StageChoice(stages, "SFT", "fresh worlds")
    )
    about = run_facts(context, machine="a desk", resources=Resources(1.0, 1.0), command="upturn demo")
    content = demo_content(context, chosen, about, ())
    assert content.headline is not None
    assert content.headline.gain_grpo is None
    assert content.headline.gain_sft == content.headline.gain
    assert [(item.stage, item.overall.value) for item in content.measurements][2:] == [
        ("after SFT", 1.0), ("after GRPO", 0.5), ("after SFT", 1.0),
    ]  # fmt: skip
    assert chosen.choice is not None
    assert chosen.choice.sentence in content.notes
    assert next(step for step in content.lineage if step.kind == "run").details == ("SFT",)


def test_headline_and_measurements_are_the_evaluations(reported: tuple[Context, Facts, ReportContent]) -> None:
    _, _, content = reported
    headline = content.headline
    assert headline is not None
    # The adder solves sums only: half of 32 held-out tasks.
    assert close(headline.before, 0.5, 32)
    assert close(headline.after, 1.0, 32)
    assert close(headline.gain, 0.5, 32)
    assert close(headline.gain_sft, 0.0, 32)
    assert close(headline.gain_grpo, 0.5, 32)
    measured = [(item.stage, item.sampling, item.overall.value) for item in content.measurements]
    assert measured == [
        ("before", "sampled", 0.5),
        ("before", "greedy", 0.5),
        ("after SFT", "sampled", 0.5),
        ("after GRPO", "sampled", 1.0),
        ("after GRPO", "greedy", 1.0),
    ]
    families = [(item.name, item.level, item.success.value) for item in content.measurements[0].families]
    assert families == [("sums", 1, 1.0), ("products", 1, 0.0)]
    assert [(item.name, item.level) for item in content.measurements[0].levels] == [("L1", 1)]


def test_learning_curve_is_that_of_grpo(reported: tuple[Context, Facts, ReportContent]) -> None:
    (curve,) = reported[2].curves
    points = [(point.iteration, point.reward, point.unseen, point.tokens) for point in curve.points]
    assert points == [(0, None, Estimate(0.25), 0), (1, 0.5, None, 100), (2, 0.75, Estimate(0.5), 140)]


def test_routing_shares_are_counted_over_the_last_decisions(reported: tuple[Context, Facts, ReportContent]) -> None:
    context, facts, content = reported
    routing, chosen = content.routing, [decision.chosen for decision in decisions(context)]
    assert routing is not None
    assert routing.points[-1].task == len(chosen)
    for point in routing.points:
        window = chosen[max(0, point.task - SHARE_WINDOW) : point.task]
        counted = Counter(window)
        assert {share.agent_version: share.share for share in point.shares} == pytest.approx(
            {version: count / len(window) for version, count in counted.items()}
        )
    assert close(routing.best_agent_share, 0.8, 2)
    assert [share.is_counted for share in facts.shares] == [True, True, False]


def test_events_are_where_the_canaries_ran(reported: tuple[Context, Facts, ReportContent]) -> None:
    context, facts, content = reported
    assert facts.release is not None
    served = {
        name: [
            index for index, decision in enumerate(decisions(context), start=1) if decision.release == release.id
        ]
        for name, release in (("trained", facts.release), ("damaged", facts.damaged_release))
    }
    assert content.routing is not None
    assert [(event.task, event.label, event.kind) for event in content.routing.events] == [
        (served["trained"][0], "trained candidate enters", "start"),
        (served["trained"][-1], "trained promoted", "promote"),
        (served["damaged"][0], "damaged candidate enters", "start"),
        (served["damaged"][-1], "damaged rolled back", "rollback"),
    ]
    assert served["trained"][0] > 96  # served without a canary before
    assert [(canary.release.state, canary.threshold) for canary in content.canaries] == [
        ("promoted", 40.0),
        ("rolled_back", 40.0),
    ]


def test_changes_are_paired_and_effort_is_of_successes(reported: tuple[Context, Facts, ReportContent]) -> None:
    changes = {change.name: change for change in reported[2].changes}
    assert list(changes) == [
        "success", "efficiency", "quality", "errors per task", "turns per success", "written tokens per success",
    ]  # fmt: skip  # and no safety violations: the desk's verifier has no such cost
    success = changes["success"]
    assert close(success.before, 0.5, 32)
    assert close(success.difference, 0.5, 32)
    turns = changes["turns per success"]
    assert close(turns.before, 1.0, 16)
    assert close(turns.after, 1.0, 32)
    assert turns.difference is None  # not the same tasks


def test_story_is_a_newly_solved_task_with_both_trajectories(
    reported: tuple[Context, Facts, ReportContent],
) -> None:
    _, facts, content = reported
    story = content.story
    assert story is not None
    first = next(mark for mark in facts.before.marks if not mark.is_success)
    assert (story.task_id, story.family, story.level) == (first.task_id, "products", 1)
    assert story.chosen_because.startswith("the first of 16 held-out tasks that failed before")
    _, left, right = story.instruction.split()
    before, after = story.attempts
    assert (before.stage, before.agent_version, before.verdict) == ("before", "adder@base", "failure")
    assert (after.stage, after.agent_version, after.verdict) == ("after", "adder@better", "success")
    assert [turn.text for turn in after.turns] == [f"user.answer text={int(left) * int(right)}"]
    assert after.changes is not None
    assert [change.path for change in after.changes] == ["action"]


def test_rows_of_evidence(reported: tuple[Context, Facts, ReportContent]) -> None:
    _, facts, content = reported
    assert [(row.name, row.holds, row.production_holds) for row in content.readiness] == [
        (check.name.replace("_", " "), check.holds, False) for check in facts.readiness.checks
    ]
    assert [(row.name, row.holds) for row in content.coverage] == [
        ("routing decisions", True), ("executions", True), ("evaluations", True), ("agents", True),
    ]  # fmt: skip
    assert [row.family for row in content.floors] == ["mail", "sheet"]
    (guardrail,) = content.guardrails
    assert guardrail.is_passed
    assert [(row.family, row.is_shown_worse, row.difference.value) for row in guardrail.rows] == [
        ("products", False, 1.0), ("sums", False, 0.0),
    ]  # fmt: skip
    assert close(guardrail.pooled, 0.0, 16)  # the family that the incumbent was good at
    assert [(step.kind, step.id) for step in content.lineage] == [
        ("snapshot", "snapshot-0123456"),
        ("run", "run"),
        ("version", "adder@better"),
        ("release", facts.release.id if facts.release else ""),
    ]


def test_page_can_be_written_and_its_content_read_back(
    reported: tuple[Context, Facts, ReportContent], tmp_path: Path
) -> None:
    content = reported[2]
    write_content(content, tmp_path / "report.json")
    assert read_content(tmp_path / "report.json") == content
    write_report(content, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    for text in ("50.0", "100.0", "adder@better", "rolled back"):
        assert text in page


def test_parts_without_data_are_omitted(
    reported: tuple[Context, Facts, ReportContent],
) -> None:
    context, facts, content = reported
    uncounted = tuple(replace(share, is_counted=False) for share in facts.shares)
    nothing = replace(facts, release=None, after=facts.before, shares=uncounted)
    reduced: Any = demo_content(context, nothing, content.facts, ())
    assert reduced.story is None
    assert [canary.title for canary in reduced.canaries] == ["The damaged candidate"]
    assert [event.label for event in reduced.routing.events] == ["damaged candidate enters", "damaged rolled back"]
    assert reduced.routing.best_agent_share is None
    assert [guardrail.is_kept_back for guardrail in (*content.guardrails, *reduced.guardrails)] == [False, True]
    assert "release" not in [step.kind for step in reduced.lineage]


def test_effort_without_a_success_is_missing_not_zero(reported: tuple[Context, Facts, ReportContent]) -> None:
    context, facts, content = reported
    failed: HeldoutResult = replace(
        facts.before, marks=tuple(replace(mark, is_success=False) for mark in facts.before.marks)
    )
    changed = demo_content(context, replace(facts, before=failed), content.facts, ())
    changes = {change.name: change for change in changed.changes}
    assert changes["turns per success"].before is None
    assert close(changes["turns per success"].after, 1.0, 32)


def test_notes_name_families_served_but_not_trained(reported: tuple[Context, Facts, ReportContent]) -> None:
    context, facts, content = reported
    assert not any("not trained" in note for note in content.notes)
    tasks = replace(context.config.tasks, train_families=("sums",))
    narrowed = replace(context, config=replace(context.config, tasks=tasks))
    about = run_facts(narrowed, machine="a desk", resources=Resources(1.0, 1.0), command="upturn demo")
    notes = demo_content(narrowed, facts, about, ()).notes
    assert [note for note in notes if "not trained" in note] == [
        "products are served but not trained: the rule-based agent solves them, which routing has to discover."
    ]
