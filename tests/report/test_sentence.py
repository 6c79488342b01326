"""Sentences claim only what the figures show: no gain without an interval above zero."""

from dataclasses import replace

import pytest

from upturn.report import (
    Canary,
    Change,
    CurvePoint,
    Estimate,
    Guardrail,
    GuardrailRow,
    Headline,
    LearningCurve,
    Measurement,
    ReportContent,
    Routing,
    RoutingPoint,
    Share,
    Success,
    sentence,
)


def plain(text: str) -> str:
    return text.replace("\u00a0", " ")


def headline(gain: Estimate) -> Headline:
    return Headline(
        before=Estimate(0.4, 0.35, 0.45, 450),
        after=Estimate(0.41, 0.36, 0.46, 450),
        gain=gain,
        basis="held-out tasks",
    )


def test_title_claims_a_gain_only_above_zero() -> None:
    assert sentence.headline_title(headline(Estimate(0.1, 0.05, 0.15))) == "The agent got better by working"
    assert sentence.headline_title(headline(Estimate(0.1, -0.01, 0.21))) == "No significant change"
    assert sentence.headline_title(headline(Estimate(0.1))) == "No significant change"
    assert "worse" in sentence.headline_title(headline(Estimate(-0.1, -0.15, -0.05)))


def test_headline_sentence_has_intervals_and_n() -> None:
    assert plain(sentence.headline_sentence(headline(Estimate(0.01, -0.03, 0.05, 450)))) == (
        "On 450 held-out tasks, success went from 40.0 % (95 % interval 35.0–45.0 %, n = 450) to 41.0 % "
        "(95 % interval 36.0–46.0 %, n = 450). Compared task by task: no significant change "
        "(+1.0 points (95 % interval −3.0 to +5.0, n = 450))."
    )


def test_difference_without_interval_claims_nothing() -> None:
    assert "nothing is claimed" in sentence.difference(Estimate(0.3))


def test_change_claims_only_what_the_interval_shows() -> None:
    known = Estimate(1.0, n=5)
    assert sentence.change(Change("a", "reward", known, known)) == "not compared"
    assert (
        sentence.change(Change("a", "reward", known, known, Estimate(0.3))) == "no interval, so nothing is claimed"
    )
    assert sentence.change(Change("a", "cost", known, known, Estimate(-0.1, -0.2, 0.0))) == "no significant change"
    assert sentence.change(Change("a", "effort", known, known, Estimate(-0.5, -0.8, -0.2), "turns")) == (
        "−0.5 turns (−0.8 to −0.2)"
    )


def test_change_caption_lists_only_significant_ones(content: ReportContent) -> None:
    efforts = [item for item in content.changes if item.kind == "effort"]
    assert "turns per success −0.51" in sentence.change_caption(efforts)
    assert "tokens" not in sentence.change_caption(efforts)
    assert "No significant change in any" in sentence.change_caption(efforts[1:])
    uncompared = [Change("a", "effort", Estimate(1.0, n=5), Estimate(2.0, n=5))]
    assert sentence.change_caption(uncompared).endswith(
        "Not compared: the tasks that succeed differ before and after."
    )


def families(stage: str, *successes: Estimate) -> Measurement:
    rows = tuple(Success(name=f"f{index}", success=success) for index, success in enumerate(successes))
    return Measurement(stage=stage, sampling="sampled", overall=successes[0], families=rows)


def test_family_caption_counts_disjoint_intervals() -> None:
    before = families("before", Estimate(0.2, 0.1, 0.3), Estimate(0.5, 0.4, 0.6), Estimate(0.9, 0.8, 1.0))
    after = families("after", Estimate(0.5, 0.4, 0.6), Estimate(0.6, 0.5, 0.7), Estimate(0.5, 0.4, 0.6))
    assert "In 1 of 3 families the interval after is above the one before; in 1 it is below." in (
        sentence.family_caption((before, after))
    )


def test_family_caption_without_intervals_counts_none() -> None:
    caption = sentence.family_caption((families("before", Estimate(0.1)), families("after", Estimate(0.9))))
    assert "In 0 of 1 families" in caption


def test_level_caption_names_the_weakest_level(content: ReportContent) -> None:
    caption = plain(sentence.level_caption(content.measurements))
    assert "Overall 39.1 % before and 88.3 % after GRPO; the weakest level is at 79.3 % (level 3)." in caption


@pytest.mark.parametrize(
    ("last", "intervals"), [(Estimate(0.75, 0.7, 0.8, 100), " with 95 % intervals"), (Estimate(0.75), "")]
)
def test_curve_caption_names_its_measure_and_claims_no_missing_interval(last: Estimate, intervals: str) -> None:
    points = (CurvePoint(1, 0.25), CurvePoint(2, 0.5, last, tokens=1234))
    assert plain(sentence.curve_caption(LearningCurve("GRPO", points))) == (
        "GRPO, 2 iterations. Mean reward on training tasks went from 0.25 to 0.5. Dots are success on training "
        f"templates in unseen worlds{intervals}, by which the best weights are chosen; the last one, at iteration "
        "2, is 75.0 %. It was trained on 1,234 model-written tokens."
    )


def test_routing_caption_names_the_largest_share() -> None:
    routing = Routing(
        points=(RoutingPoint(1000, (Share("a@1", 0.3), Share("b@2", 0.7))),), measure="share of tasks"
    )
    assert plain(sentence.routing_caption(routing)) == (
        "Each band is one agent version's share of tasks. After 1,000 tasks, b@2 holds the largest: 70.0 %."
    )


def test_canary_caption_counts_both_arms(content: ReportContent) -> None:
    release = content.canaries[1].release
    last = replace(
        release.evidence[-1], candidate_tasks=50, candidate_successes=30, control_tasks=100, control_successes=90
    )
    canary = Canary("The damaged candidate", replace(release, evidence=(last,)), 40.0)
    assert plain(sentence.canary_caption(canary)) == (
        "The damaged candidate was rolled back after serving 50 tasks (success 60.0 % of 50 against 90.0 % of 100 "
        "in the control arm)."
    )
    undecided = replace(canary, release=replace(canary.release, state="canary"))
    assert "is still in canary after serving 50 tasks" in sentence.canary_caption(undecided)
    without_evidence = replace(canary, release=replace(canary.release, evidence=()))
    assert "no evidence was recorded" in sentence.canary_caption(without_evidence)


def test_guardrail_sentence_names_families_shown_worse() -> None:
    rows = (GuardrailRow("mail", Estimate(-0.2, -0.3, -0.1, 40), is_shown_worse=True),)
    blocked = Guardrail(rows=rows, is_passed=False, rule="a rule", pooled=Estimate(-0.1, -0.2, 0.0, 80))
    assert plain(sentence.guardrail_sentence(blocked)) == (
        "Blocked: shown worse in mail. Over the families in which the incumbent was strong: "
        "−10.0 points (95 % interval −20.0 to 0.0, n = 80)."
    )


def test_summary_tiles_of_a_minimal_run_are_empty(bare: ReportContent) -> None:
    assert sentence.summary_tiles(bare) == []


def test_summary_tiles_follow_the_loop(content: ReportContent) -> None:
    tiles = sentence.summary_tiles(content)
    assert [word for word, _, _ in tiles] == [
        "Routed",
        "Evaluated",
        "Trained",
        "Promoted",
        "Rolled back",
        "Checked",
    ]
    assert tiles[0][1:] == ("2,000", "tasks, to 5 agent versions")
    assert tiles[-1][1] == "6 of 7"


def test_a_blocked_candidate_has_a_summary_tile(content: ReportContent) -> None:
    rows = (GuardrailRow("mail", Estimate(-0.2, -0.3, -0.1, 40), is_shown_worse=True),)
    kept_back = Guardrail(rows=rows, is_passed=False, rule="a rule", is_kept_back=True)
    others = (replace(kept_back, rows=()), replace(kept_back, is_kept_back=False))
    tiles = sentence.summary_tiles(replace(content, guardrails=(kept_back, *others)))
    assert tiles[3:5] == [
        ("Blocked", "1", "candidate without a canary: it is shown worse in mail"),
        ("Blocked", "1", "candidate without a canary: it did not pass validation"),
    ]
    assert tiles[5][0] == "Promoted"


def test_a_point_before_the_first_iteration_is_not_counted_as_one() -> None:
    points = (CurvePoint(0, unseen=Estimate(0.4)), CurvePoint(1, reward=0.5), CurvePoint(2, reward=0.6))
    assert sentence.iterations(LearningCurve("GRPO", points)) == 2


@pytest.mark.parametrize(
    ("is_skipped", "validation", "reason", "text"),
    [
        (False, "passed: +50.1 points", "", "Validation before the canary: passed: +50.1 points."),
        (False, "", "", "Validation before the canary: not recorded."),
        (True, "skipped", "validation skipped by demo: to show it.", "Validation skipped by demo: to show it."),
        (
            True,
            "skipped",
            "rolled back by ann: slow",
            "Validation skipped by an operator: rolled back by ann: slow.",
        ),
        (True, "skipped", "", "Validation skipped by an operator."),
    ],
)
def test_a_skipped_validation_is_said_once(
    content: ReportContent, is_skipped: bool, validation: str, reason: str, text: str
) -> None:
    release = replace(
        content.canaries[0].release, is_validation_skipped=is_skipped, validation=validation, reason=reason
    )
    assert sentence.validation_sentence(release) == text
