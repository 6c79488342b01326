"""Sentences about why a run ended and which weights are kept; no gain is claimed without intervals."""

from dataclasses import replace

import pytest

from upturn.report.training import TrainingReport
from upturn.report.training.sentence import (
    attention_sentence,
    change,
    kept_weights_sentence,
    score_sentence,
    status,
    stop_sentences,
    tiles,
)
from upturn.training import TrainingOutcome
from upturn.training.outcome import StopReason
from upturn.training.runs.curve import CurvePoint
from upturn.training.runs.run_folder import RunPlan


def ended(report: TrainingReport, stopped: StopReason, units: int, best: float | None = 0.9) -> TrainingReport:
    outcome = TrainingOutcome(stopped, units, 2 * units, "best", 15 if best else 0, "ab", best, best)
    return replace(report, outcome=outcome)


@pytest.mark.parametrize(
    ("stopped", "text", "state"),
    [
        ("finished", "All 60 iterations were done.", ("finished", "good")),
        (
            "target",
            "It stopped after 20 of 60 iterations: the target score 0.95 was reached.",
            ("target reached", "good"),
        ),
        (
            "patience",
            "It stopped after 20 of 60 iterations: the last 4 evaluations brought no new best score.",
            ("stopped early", ""),
        ),
    ],
)
def test_every_stop_reason_is_described(
    finished: TrainingReport, stopped: StopReason, text: str, state: tuple[str, str]
) -> None:
    report = ended(finished, stopped, 20)
    assert stop_sentences(report) == text
    assert status(report) == state


def test_a_run_without_steps_is_described(finished: TrainingReport) -> None:
    """All trajectories of each group had equal rewards, so that 60 iterations changed nothing."""
    report = ended(finished, "finished", 60)
    assert report.outcome is not None
    assert stop_sentences(replace(report, outcome=replace(report.outcome, steps=0))) == (
        "All 60 iterations were done. No optimiser step was taken: no sample gave a training signal."
    )


def test_after_a_warm_up_the_first_weights_are_those_of_the_warm_up(finished: TrainingReport) -> None:
    outcome = ended(finished, "finished", 60).outcome
    assert outcome is not None
    first = replace(outcome, kept_units=0)
    text = kept_weights_sentence(replace(finished, outcome=first, has_warm_up=True))
    assert text.startswith("The weights after the warm-up are kept: ")
    assert kept_weights_sentence(replace(finished, outcome=first)).startswith(
        "The weights before any training are kept: "
    )


def costly(report: TrainingReport, *costs: tuple[int, float, float]) -> TrainingReport:
    """A run with these evaluations, with limits of .05 on ``error`` and .1 on ``safety``."""
    points = (
        CurvePoint(units, units, {"score": 0.5, "cost_error": error, "cost_safety": safety})
        for units, error, safety in costs
    )
    plan = replace(report.description.plan, cost_limits={"error": 0.05, "safety": 0.1})
    return replace(report, points=tuple(points), description=replace(report.description, plan=plan))


def test_a_run_stopped_by_a_limit_names_the_cost_and_the_iteration(finished: TrainingReport) -> None:
    report = ended(costly(finished, (0, 0.0, 0.0), (5, 0.125, 0.1)), "limit", 5)
    assert stop_sentences(report) == (
        "It stopped after 5 of 60 iterations: after iteration 5, the held-out cost error was 0.125, above its "
        "limit of 0.05."
    )
    assert status(report) == ("stopped by a limit on error", "bad")
    both = ended(costly(finished, (0, 0.0, 0.0), (5, 0.125, 0.2)), "limit", 5)
    assert stop_sentences(both).endswith(
        "after iteration 5, the held-out cost error was 0.125, above its limit of 0.05, and safety was 0.2, above "
        "its limit of 0.1."
    )
    assert status(both) == ("stopped by limits on error and safety", "bad")


def test_a_run_never_within_its_limits_keeps_no_weights(finished: TrainingReport) -> None:
    """The first and the last evaluation may exceed different limits."""
    never = ended(costly(finished, (0, 0.213, 0.0), (5, 0.3, 0.3), (10, 0.0, 0.2)), "limit", 10, best=None)
    assert stop_sentences(never) == (
        "It stopped after 10 of 60 iterations, and no evaluation was within the limits on costs: before any step, "
        "the held-out cost error was 0.213, above its limit of 0.05; after iteration 10, the held-out cost safety "
        "was 0.2, above its limit of 0.1."
    )
    assert kept_weights_sentence(never) == "No weights are kept: the model has its weights from before training."
    assert status(never) == ("never within its limits on costs", "bad")
    whole = ended(costly(finished, (0, 0.213, 0.0), (60, 0.2, 0.0)), "limit", 60, best=None)
    assert stop_sentences(whole).startswith(
        "All 60 iterations were done, and no evaluation was within the limits on costs: "
    )
    only = ended(costly(finished, (5, 0.213, 0.0)), "limit", 5, best=None)
    assert stop_sentences(only).endswith(
        "limits on costs: after iteration 5, the held-out cost error was 0.213, above its limit of 0.05."
    )


def test_an_unfinished_run_is_described_with_how_to_resume(under_way: TrainingReport) -> None:
    assert stop_sentences(under_way) == (
        "23 of 60 iterations are on the curve. The latest was written 2026-03-01 12:30 UTC. The run is active "
        "or was interrupted: started again, it resumes from its checkpoint."
    )
    assert kept_weights_sentence(under_way) == ""
    assert status(under_way) == ("not finished", "")


def test_the_kept_weights_are_named(finished: TrainingReport, supervised: TrainingReport) -> None:
    assert kept_weights_sentence(finished) == "The weights after iteration 60 are kept: the best of 13 evaluations."
    assert kept_weights_sentence(supervised) == "The last weights are kept."
    first = TrainingOutcome("patience", 20, 40, "best", 0, "ab", 0.5, 0.6)
    assert kept_weights_sentence(replace(finished, outcome=first)).startswith(
        "The weights before any training are kept"
    )


def test_the_measure_is_named_with_its_number_of_tasks(
    finished: TrainingReport, supervised: TrainingReport
) -> None:
    assert score_sentence(finished).replace("\u00a0", " ") == (
        "The score is success on training templates in unseen worlds (n = 108)."
    )
    assert score_sentence(supervised) == ""
    without_measure = replace(finished.description, measure="")
    bare = replace(finished, description=without_measure, points=(CurvePoint(0, 0, {"score": 0.5}),))
    assert score_sentence(bare) == "The score is what the evaluation returned."


def test_the_attention_of_the_latest_update_is_named(finished: TrainingReport) -> None:
    mixed = {"physical_tokens": 100.0, "attention_by_node": 0.25, "attention_flex": 0.75}
    alone = {"physical_tokens": 100.0, "attention_streamed": 1.0}
    evaluation = CurvePoint(3, 3, {"score": 0.5})
    points = (CurvePoint(1, 1, alone), CurvePoint(2, 2, mixed), evaluation)
    assert attention_sentence(replace(finished, points=points)) == (
        "Attention: flex for 75% of positions, by_node for 25% of positions."
    )
    assert attention_sentence(replace(finished, points=points[:1])) == "Attention: streamed."
    assert attention_sentence(replace(finished, points=(evaluation,))) == ""


def scored(report: TrainingReport, *scores: tuple[float, float | None, float | None]) -> TrainingReport:
    points = tuple(
        CurvePoint(index, index, {"score": score, "score_low": low, "score_high": high})
        for index, (score, low, high) in enumerate(scores)
    )
    return replace(report, points=points, description=replace(report.description, plan=RunPlan(60, 5, 1, "best")))


def test_a_change_is_claimed_only_for_disjoint_intervals(finished: TrainingReport) -> None:
    apart = scored(finished, (0.5, 0.4, 0.6), (0.8, 0.7, 0.9))
    assert change(apart).replace("\u00a0", " ") == (
        "The score went from 0.5 (95 % interval 0.4 to 0.6) to 0.8 (95 % interval 0.7 to 0.9). "
        "The intervals do not overlap."
    )
    assert change(scored(finished, (0.5, 0.4, 0.6), (0.6, 0.55, 0.7))).endswith(
        ": no significant change, the intervals overlap."
    )
    assert change(scored(finished, (0.5, None, None), (0.8, None, None))) == (
        "The score went from 0.5 to 0.8. There are no intervals, so nothing is claimed."
    )
    assert (
        change(scored(finished, (0.8, 0.7, 0.9), (0.5, 0.4, 0.6))) == "No evaluation was better than the first one."
    )
    assert change(scored(finished, (0.5, 0.4, 0.6))) == ""


def test_a_loss_is_reported_when_the_last_weights_are_kept(finished: TrainingReport) -> None:
    worse = scored(finished, (0.8, 0.7, 0.9), (0.5, 0.4, 0.6))
    last = replace(worse.description, plan=RunPlan(60, 5, 1, "final"))
    assert change(replace(worse, description=last)).endswith("It fell, and the intervals do not overlap.")


def test_tiles_are_sums_over_the_curve(finished: TrainingReport, supervised: TrainingReport) -> None:
    figures = {word: figure for word, figure, _ in tiles(finished)}
    assert figures["Iterations"] == "60"
    assert figures["Optimiser steps"] == "120"
    assert figures["Trajectories"] == "11,520"  # 60 · 192
    assert figures["Tokens written"].replace("\u00a0", " ") == "1.21 M"  # Σ 19,000 + 40 i
    assert [word for word, _, _ in tiles(supervised)] == ["Optimiser steps", "Tokens trained", "Time"]
    assert tiles(replace(finished, points=())) == []


def test_a_single_step_is_in_the_singular(supervised: TrainingReport) -> None:
    plan = RunPlan(1, None, 1, "final", unit="optimiser step")
    one = replace(supervised, description=replace(supervised.description, plan=plan))
    assert stop_sentences(one) == "Its one optimiser step was done."
