"""Sentences of a training run's page; they claim only what the figures show."""

from typing import Literal, assert_never

from upturn.report.number import duration, number, rounded
from upturn.report.sentence import NO_CHANGE
from upturn.report.training.content import TrainingReport, broken_limits
from upturn.training.runs import CurvePoint, seconds_of

UNITS = {"iteration": "iterations", "optimiser step": "optimiser steps", "round": "rounds"}


Tone = Literal["good", "bad", ""]


def status(report: TrainingReport) -> tuple[str, Tone]:
    """The run's state in a few words, and whether it is good or bad; empty = neither."""
    if report.outcome is None:
        return "not finished", ""
    match report.outcome.stopped:
        case "finished":
            return "finished", "good"
        case "target":
            return "target reached", "good"
        case "patience":
            return "stopped early", ""
        case "limit" if report.kept is None:
            return "never within its limits on costs", "bad"
        case "limit":
            names = broken_limits(report.evaluations[-1], report.description)
            return f"stopped by {'a limit' if len(names) == 1 else 'limits'} on {' and '.join(names)}", "bad"
        case _:
            assert_never(report.outcome.stopped)


def stop_sentences(report: TrainingReport) -> str:
    """How far the run got, why it stopped, and whether any optimiser step was taken."""
    if report.outcome is None or report.outcome.steps:
        return _stopped(report)
    return f"{_stopped(report)} No optimiser step was taken: no sample gave a training signal."


def _stopped(report: TrainingReport) -> str:
    plan, outcome = report.description.plan, report.outcome
    units = UNITS[plan.unit]
    stopped = f"It stopped after {0 if outcome is None else outcome.units:,} of {plan.units:,} {units}"
    if outcome is None:
        done = report.points[-1].units if report.points else 0
        latest = f" The latest was written {report.written}." if report.written else ""
        return (
            f"{done:,} of {plan.units:,} {units} are on the curve.{latest} The run is active or was "
            "interrupted: started again, it resumes from its checkpoint."
        )
    whole = f"All {plan.units:,} {units} were done" if plan.units > 1 else f"Its one {plan.unit} was done"
    match outcome.stopped:
        case "finished":
            return f"{whole}."
        case "target":
            return f"{stopped}: the target score {number(plan.target_score or 0.0)} was reached."
        case "patience":
            return f"{stopped}: the last {plan.patience or 0} evaluations brought no new best score."
        case "limit" if report.kept is None:
            # of the first and the last evaluation, which may be the same
            excesses = dict.fromkeys(
                _broken(report, point) for point in (report.evaluations[0], report.evaluations[-1])
            )
            reached = whole if outcome.units == plan.units else stopped
            return f"{reached}, and no evaluation was within the limits on costs: {'; '.join(excesses)}."
        case "limit":
            return f"{stopped}: {_broken(report, report.evaluations[-1])}."
        case _:
            assert_never(outcome.stopped)


def _broken(report: TrainingReport, point: CurvePoint) -> str:
    """The held-out costs of an evaluation that are above their limits, and its unit."""
    limits, unit = report.description.plan.cost_limits, report.description.plan.unit
    when = "before any step" if point.units == 0 else f"after {unit} {point.units:,}"
    costs = [
        f"{name} was {_cost(point.metrics[f'cost_{name}'] or 0.0)}, above its limit of {_cost(limits[name])}"
        for name in broken_limits(point, report.description)
    ]
    return f"{when}, the held-out cost {', and '.join(costs)}"


def _cost(value: float) -> str:
    """``0.0001``, as in the configuration, not ``1.00e-04``."""
    return number(value) if value >= 0.001 else f"{value:.4g}"


def start_text(report: TrainingReport) -> str:
    """A phrase for the time of the first evaluation."""
    return "after the warm-up" if report.has_warm_up else "before any training"


def kept_weights_sentence(report: TrainingReport) -> str:
    """Which weights are kept."""
    outcome, unit = report.outcome, report.description.plan.unit
    if outcome is None:
        return ""
    if outcome.kept == "final":
        return "The last weights are kept."
    if outcome.best_score is None:
        return "No weights are kept: the model has its weights from before training."
    where = start_text(report) if outcome.kept_units == 0 else f"after {unit} {outcome.kept_units:,}"
    return f"The weights {where} are kept: the best of {len(report.evaluations)} evaluations."


def score_sentence(report: TrainingReport) -> str:
    """The measure of the evaluations and their number of tasks; empty without evaluations."""
    if not report.evaluations:
        return ""
    tasks = report.evaluations[-1].metrics.get("score_tasks")
    on = "" if tasks is None else f" (n\u00a0=\u00a0{tasks:,.0f})"
    return f"The score is {report.description.measure or 'what the evaluation returned'}{on}."


def attention_sentence(report: TrainingReport) -> str:
    """The attention that computed the updates, by share of positions; empty before the first update."""
    prefix = "attention_"
    latest = next((point.metrics for point in reversed(report.points) if "physical_tokens" in point.metrics), {})
    shares = {name: value for name, value in latest.items() if name.startswith(prefix) and value}
    ordered = sorted(shares, key=lambda name: -(shares[name] or 0.0))
    if not ordered:
        return ""
    if len(ordered) == 1:
        return f"Attention: {ordered[0].removeprefix(prefix)}."
    parts = (f"{name.removeprefix(prefix)} for {shares[name]:.0%} of positions" for name in ordered)
    return f"Attention: {', '.join(parts)}."


def change(report: TrainingReport) -> str:
    """The change from the first evaluation to that of the kept weights; claimed only for disjoint intervals."""
    if len(report.evaluations) < 2:
        return ""
    before, after = report.evaluations[0], report.kept or report.evaluations[-1]
    if before is after:
        return "No evaluation was better than the first one."
    text = f"The score went from {_figure(before)} to {_figure(after)}"
    if not (_has_interval(before) and _has_interval(after)):
        return f"{text}. There are no intervals, so nothing is claimed."
    if _low(after) > _high(before):
        return f"{text}. The intervals do not overlap."
    if _high(after) < _low(before):
        return f"{text}. It fell, and the intervals do not overlap."
    return f"{text}: {NO_CHANGE}, the intervals overlap."


def tiles(report: TrainingReport) -> list[tuple[str, str, str]]:
    """The work of the run as (label, figure, explanation)."""
    plan, points = report.description.plan, report.points
    if not points:
        return []
    items = [(UNITS[plan.unit].capitalize(), f"{points[-1].units:,}", f"of {plan.units:,} planned")]
    if plan.unit != "optimiser step":
        items.append(("Optimiser steps", f"{points[-1].steps:,}", "over the whole run"))
    for metric, label, explanation in (
        ("trajectories", "Trajectories", "sampled and graded"),
        ("written_tokens", "Tokens written", "by the model in these trajectories"),
        ("logical_tokens", "Tokens trained", "as recorded, prompts included"),
    ):
        total = sum(value for _, value in report.values(metric))
        if total:
            items.append((label, _short(total), explanation))
    seconds = sum(map(seconds_of, points))
    if seconds:
        items.append(("Time", duration(seconds), "without pauses"))
    return items


def _short(count: float) -> str:
    """``1234567`` → ``1.23 M``."""
    return f"{count / 1e6:,.3g}\u00a0M" if count >= 1e6 else number(float(f"{count:.4g}"))


def _figure(point: CurvePoint) -> str:
    score = number(rounded(point.metrics["score"] or 0.0))
    if not _has_interval(point):
        return score
    low, high = number(rounded(_low(point))), number(rounded(_high(point)))
    return f"{score} (95\u00a0% interval {low} to {high})"


def _has_interval(point: CurvePoint) -> bool:
    return point.metrics.get("score_low") is not None and point.metrics.get("score_high") is not None


def _low(point: CurvePoint) -> float:
    return point.metrics.get("score_low") or 0.0


def _high(point: CurvePoint) -> float:
    return point.metrics.get("score_high") or 0.0
