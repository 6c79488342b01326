"""Sentences about the figures.

A difference is a gain or a loss only if its interval excludes zero; otherwise the sentence reads "no significant
change".
"""

from collections.abc import Sequence

from upturn.records import Release
from upturn.report.content import (
    Canary,
    Change,
    Estimate,
    Guardrail,
    Headline,
    LearningCurve,
    Measurement,
    ReportContent,
    Routing,
)
from upturn.report.number import number, percent, percent_estimate, points_estimate, signed

NO_CHANGE = "no significant change"

_VERDICTS = {
    "promoted": "promoted",
    "rolled_back": "rolled back",
    "canary": "still in canary",
    "watch": "promoted, under watch",
}


def headline_title(headline: Headline) -> str:
    """The page's first line."""
    if headline.gain.is_above_zero:
        return "The agent got better by working"
    if headline.gain.is_below_zero:
        return "The agent got worse: do not use this version"
    return "No significant change"


def page_title(content: ReportContent) -> str:
    """The title of the browser's window: the headline's claim, so that the two agree; without one the content's."""
    return f"{content.title if content.headline is None else headline_title(content.headline)} · Upturn"


def headline_sentence(headline: Headline) -> str:
    """Before, after and gain with their intervals."""
    n = f"{headline.gain.n:,} " if headline.gain.n is not None else ""
    return (
        f"On {n}{headline.basis}, success went from {percent_estimate(headline.before)} "
        f"to {percent_estimate(headline.after)}. Compared task by task: {difference(headline.gain)}."
    )


def difference(gain: Estimate) -> str:
    """A paired difference of two success rates."""
    if gain.low is None or gain.high is None:
        return f"{points_estimate(gain)}, without an interval, so nothing is claimed"
    if not gain.is_significant:
        return f"{NO_CHANGE} ({points_estimate(gain)})"
    return points_estimate(gain)


def change(item: Change) -> str:
    """The change of one quantity."""
    if item.difference is None:
        return "not compared"
    gain = item.difference
    if gain.low is None or gain.high is None:
        return "no interval, so nothing is claimed"
    if not gain.is_significant:
        return NO_CHANGE
    unit = f" {item.unit}" if item.unit else ""
    return f"{signed(gain.value)}{unit} ({signed(gain.low)} to {signed(gain.high)})"


def sampled(measurements: Sequence[Measurement]) -> tuple[Measurement, ...]:
    """The measurements at the serving temperature, in order."""
    return tuple(item for item in measurements if item.sampling == "sampled")


def level_caption(measurements: Sequence[Measurement]) -> str:
    """Caption of the picture of success by level."""
    stages = sampled(measurements)
    last = stages[-1]
    overall = dict.fromkeys(f"{percent(stage.overall.value)} {stage.stage}" for stage in (stages[0], last))
    text = f"Held-out success with 95 % intervals, at the serving temperature. Overall {' and '.join(overall)}"
    if last.levels:
        weakest = min(last.levels, key=lambda level: level.success.value)
        text += f"; the weakest level is at {percent(weakest.success.value)} ({weakest.name})"
    return text + "."


def family_caption(measurements: Sequence[Measurement]) -> str:
    """Caption of the picture of success by family."""
    stages = sampled(measurements)
    first = {item.name: item.success for item in stages[0].families}
    last = {item.name: item.success for item in stages[-1].families}
    shared = [name for name in first if name in last]
    text = "One row per task family; whiskers are 95 % intervals on held-out tasks."
    if len(stages) < 2 or not shared:
        return text
    apart = sum(_is_apart(first[name], last[name]) for name in shared)
    below = sum(_is_apart(last[name], first[name]) for name in shared)
    text += f" In {apart} of {len(shared)} families the interval {stages[-1].stage} is above "
    text += f"the one {stages[0].stage}"
    return text + (f"; in {below} it is below." if below else "; in none is it below.")


def _is_apart(low: Estimate, high: Estimate) -> bool:
    return low.high is not None and high.low is not None and high.low > low.high


def iterations(curve: LearningCurve) -> int:
    """Number of the run's iterations, without the point before the first one."""
    return max(point.iteration for point in curve.points)


def curve_caption(curve: LearningCurve) -> str:
    """Caption of the learning curve."""
    rewards = [point.reward for point in curve.points if point.reward is not None]
    unseen = [(point.iteration, point.unseen) for point in curve.points if point.unseen is not None]
    parts = [f"{curve.algorithm}, {iterations(curve)} iterations."]
    if rewards:
        parts.append(
            f"Mean reward on training tasks went from {number(round(rewards[0], 3))} "
            f"to {number(round(rewards[-1], 3))}."
        )
    if unseen:
        iteration, last = unseen[-1]
        intervals = " with 95 % intervals" if any(score.low is not None for _, score in unseen) else ""
        parts.append(
            f"Dots are success on training templates in unseen worlds{intervals}, by which the best weights are "
            f"chosen; the last one, at iteration {iteration}, is {percent(last.value)}."
        )
    tokens = [point.tokens for point in curve.points if point.tokens is not None]
    if tokens:
        parts.append(f"It was trained on {tokens[-1]:,} model-written tokens.")
    return " ".join(parts)


def routing_caption(routing: Routing) -> str:
    """Caption of the routing picture."""
    last = routing.points[-1]
    text = f"Each band is one agent version's {routing.measure}."
    if last.shares:
        best = max(last.shares, key=lambda share: share.share)
        text += f" After {last.task:,} tasks, {best.agent_version} holds the largest: {percent(best.share)}."
    if routing.best_agent_share is not None:
        best_share = percent_estimate(routing.best_agent_share)
        text += f" Mean final probability of the best agent where one clearly leads: {best_share}."
    return text


def canary_caption(canary: Canary) -> str:
    """Caption of one canary's evidence."""
    state = verdict(canary.release)
    if not canary.release.evidence:
        return f"{canary.title}: no evidence was recorded; {state}."
    last = canary.release.evidence[-1]
    if canary.release.state == "canary":
        return f"{canary.title} is {state} after serving {last.candidate_tasks:,} tasks."
    return (
        f"{canary.title} was {state} after serving {last.candidate_tasks:,} tasks"
        f" (success {_rate(last.candidate_successes, last.candidate_tasks)} against "
        f"{_rate(last.control_successes, last.control_tasks)} in the control arm)."
    )


def _rate(successes: int, tasks: int) -> str:
    return f"{percent(successes / tasks)} of {tasks:,}" if tasks else "no tasks"


def verdict(release: Release) -> str:
    """The release's state as text."""
    return _VERDICTS[release.state]


def validation_sentence(release: Release) -> str:
    """What validation found before the canary, or who skipped it and why."""
    if not release.is_validation_skipped:
        return f"Validation before the canary: {release.validation or 'not recorded'}."
    reason = release.reason.rstrip(".")
    if reason.startswith("validation skipped"):
        return f"{reason[0].upper()}{reason[1:]}."
    return f"Validation skipped by an operator{': ' if reason else ''}{reason}."


def guardrail_sentence(guardrail: Guardrail) -> str:
    """Whether the check against forgetting passed, and on what."""
    worse = [row.family for row in guardrail.rows if row.is_shown_worse]
    text = "Passed: " if guardrail.is_passed else "Blocked: "
    text += f"shown worse in {', '.join(worse)}." if worse else "no family is shown worse."
    if guardrail.pooled is not None:
        text += f" Over the families in which the incumbent was strong: {points_estimate(guardrail.pooled)}."
    return text


def change_caption(changes: Sequence[Change]) -> str:
    """Caption of a picture of quantities before and after."""
    moved = [
        f"{item.name} {change(item)}" for item in changes if item.difference and item.difference.is_significant
    ]
    text = "Grey is before, blue is after; thin lines are 95 % intervals."
    if moved:
        return f"{text} Significant: {'; '.join(moved)}."
    if not any(item.difference for item in changes):
        return f"{text} Not compared: the tasks that succeed differ before and after."
    return f"{text} {NO_CHANGE.capitalize()} in any of them is shown."


def summary_tiles(content: ReportContent) -> list[tuple[str, str, str]]:
    """A summary of the run as (label, figure, explanation), in the order of the loop."""
    tiles: list[tuple[str, str, str]] = []
    if content.routing and content.routing.points:
        versions = {share.agent_version for point in content.routing.points for share in point.shares}
        tasks = content.routing.points[-1].task
        tiles.append(("Routed", f"{tasks:,}", f"tasks, to {len(versions)} agent versions"))
    row = next((row for row in content.coverage if "evaluat" in row.name.lower()), None)
    if row is not None and row.share is not None:
        tiles.append(("Evaluated", percent(row.share), f"of the results: {row.covered:,} of {row.total:,}"))
    curves = [curve for curve in content.curves if curve.points]
    if curves:
        count = sum(iterations(curve) for curve in curves)
        names = " and ".join(dict.fromkeys(curve.algorithm for curve in curves))
        tiles.append(("Trained", f"{count:,}", f"iterations of {names}"))
    tiles += [_blocked_tile(guardrail) for guardrail in content.guardrails if guardrail.is_kept_back]
    tiles += [_release_tile(canary) for canary in content.canaries]
    with_bar = [result for result in content.results if result.holds is not None]
    if with_bar:
        met = sum(result.holds is True for result in with_bar)
        is_short = content.bars_note and met < len(with_bar)
        more = "bars met; this run is not meant to meet all" if is_short else "bars met, with figures below"
        tiles.append(("Checked", f"{met} of {len(with_bar)}", more))
    return tiles


def _blocked_tile(guardrail: Guardrail) -> tuple[str, str, str]:
    worse = [row.family for row in guardrail.rows if row.is_shown_worse]
    reason = f"it is shown worse in {', '.join(worse)}" if worse else "it did not pass validation"
    return ("Blocked", "1", f"candidate without a canary: {reason}")


def _release_tile(canary: Canary) -> tuple[str, str, str]:
    release = canary.release
    tasks = release.evidence[-1].candidate_tasks if release.evidence else 0
    title = canary.title[:1].lower() + canary.title[1:]
    return (verdict(release).capitalize(), f"{tasks:,}", f"tasks served by {title} in its canary")
