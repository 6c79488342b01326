"""Statistics and history are those of a slow computation from the records, for any selection."""

import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from math import isclose
from statistics import fmean
from typing import Any

import pytest

from tests.pool.conftest import build_point
from upturn.pool import ALL_TENANTS, EVERYTHING, Experience, Location, Pool, RolloutKey, Scope, Selection
from upturn.pool.statistics import history, statistics
from upturn.records import Evaluation, EvaluationVerdict, Outcome

VERDICTS: tuple[EvaluationVerdict, ...] = ("success", "failure", "missing")
OUTCOMES: tuple[Outcome, ...] = ("finished", "model_error")
SECONDS_BETWEEN = 60.0


@pytest.fixture
def filled(location: Location) -> Pool:
    """90 trajectories of 12 tasks, one a minute, of several agents and outcomes, with two evaluations or none."""
    draw = random.Random(3)
    now = [0.0]
    with Pool.open(location, clock=lambda: now[0]) as pool:
        for number in range(90):
            now[0] += SECONDS_BETWEEN
            group = number // 8
            task, trajectory, evaluation = build_point(
                str(number),
                task=f"t{group}",
                family=f"family-{group % 3}",
                tenant="other" if group == 5 else "default",
                agent=f"nano@{draw.randrange(2)}",
            )
            turns = trajectory.turns[: draw.randrange(3)]
            usage = replace(trajectory.usage, prompt_tokens=number, seconds=draw.random())
            trajectory = replace(
                trajectory, turns=turns, rows=(), outcome=draw.choice(OUTCOMES), usage=usage, origin="rendered"
            )
            verdict = draw.choice(VERDICTS)
            evaluation = replace(evaluation, verdict=verdict, score=draw.choice((0.0, 0.5, 1.0, None)))
            if number % 9 == 0:
                pool.append(task, trajectory)
            elif number % 7 == 0:
                pool.append(task, trajectory, evaluation, rollout=RolloutKey("run", number))
            else:
                pool.append(task, trajectory, evaluation)
            if number % 10 == 0:
                pool.append(
                    Evaluation(f"late-{number}", task.id, trajectory.id, "own/2", "failure", (), {}, {}, 0.25)
                )
    return Pool.open(location, read_only=True)


SELECTIONS: Sequence[tuple[Selection, Scope]] = [
    (EVERYTHING, "default"),
    (EVERYTHING, ALL_TENANTS),
    (EVERYTHING, "nobody"),
    (Selection(before=40 * SECONDS_BETWEEN), "default"),
    (Selection(since=20 * SECONDS_BETWEEN, before=60 * SECONDS_BETWEEN), ALL_TENANTS),
    (Selection(families=("family-1", "family-2"), agent_versions=("nano@1",)), "default"),
    (Selection(verdicts=("missing",)), "default"),
    (Selection(min_score=0.5), "default"),
    (Selection(limit_per_family=11, limit=25), "default"),
    (Selection(run="run"), "default"),
    (Selection(run="run", iteration=7), "default"),
    (Selection(environments=("nowhere",)), "default"),
]


def test_statistics_and_history_are_those_of_the_records(filled: Pool) -> None:
    with filled:
        for selection, tenant in SELECTIONS:
            experiences = list(filled.experiences(selection, tenant=tenant))
            assert selection.before is None or all(_recorded_at(one) < selection.before for one in experiences)
            figures = statistics(filled, tenant=tenant, selection=selection)
            expected = slow_statistics(experiences)
            actual = figures._asdict() | {"pass_k": [entry.value for entry in figures.pass_k]}
            for name, value in expected.items():
                assert _is_equal(actual[name], value), (selection, tenant, name, actual[name], value)
            periods = history(filled, tenant=tenant, selection=selection)
            assert [tuple(period) for period in periods] == slow_history(experiences)


def _recorded_at(experience: Experience) -> float:
    return SECONDS_BETWEEN * (1 + int(experience.trajectory.id.removeprefix("trajectory-")))


def _verdict(experience: Experience) -> EvaluationVerdict:
    return "missing" if experience.evaluation is None else experience.evaluation.verdict


def _is_equal(actual: Any, expected: Any) -> bool:
    if isinstance(expected, list):
        return len(actual) == len(expected) and all(map(_is_equal, actual, expected))
    if isinstance(expected, float):
        return isclose(actual, expected)
    return bool(actual == expected)


def slow_statistics(experiences: Sequence[Experience]) -> dict[str, Any]:
    """Returns the fields of ``Statistics``, pass^k as values: the share of draws of k that all succeed."""
    groups = defaultdict[tuple[str, str], list[Experience]](list)
    for one in experiences:
        groups[one.task.id, one.trajectory.agent_version].append(one)
    verdicts = Counter(map(_verdict, experiences))
    scores = [
        [one.evaluation.score for one in group if one.evaluation and one.evaluation.score is not None]
        for group in groups.values()
    ]
    comparable = [group for group in scores if len(group) >= 2]
    histograms: dict[int, Counter[int]] = defaultdict(Counter)
    for group in groups.values():
        histograms[len(group)][sum(_verdict(one) == "success" for one in group)] += 1
    pass_k: list[float] = []
    for k in range(1, min(8, max(map(len, groups.values()), default=0)) + 1):
        large = [group for group in groups.values() if len(group) >= k]
        draws = [list(combinations(map(_verdict, group), k)) for group in large]
        pass_k.append(fmean(fmean(set(draw) == {"success"} for draw in group) for group in draws))
    outcomes = Counter(one.trajectory.outcome for one in experiences)
    return {
        "trajectories": len(experiences),
        "tasks": len({one.task.id for one in experiences}),
        "groups": len(groups),
        "turns": sum(len(one.trajectory.turns) for one in experiences),
        "with_tools": sum(
            any(turn.action and turn.action.target != "user" for turn in one.trajectory.turns)
            for one in experiences
        ),
        "successes": verdicts["success"],
        "failures": verdicts["failure"],
        "missing": verdicts["missing"],
        "pass_k": pass_k if verdicts["success"] + verdicts["failure"] else [],
        "histograms": {n: {c: by[c] for c in range(n + 1)} for n, by in histograms.items()},
        "comparable_groups": len(comparable),
        "zero_variance_groups": sum(len(set(group)) == 1 for group in comparable),
        "success_turns": _mean_turns(experiences, "success"),
        "failure_turns": _mean_turns(experiences, "failure"),
        "families": tuple(_counted(experiences, lambda one: one.task.family)),
        "agents": tuple(_counted(experiences, lambda one: one.trajectory.agent_version)),
        "outcomes": dict(outcomes),
    }


def _mean_turns(experiences: Sequence[Experience], verdict: EvaluationVerdict) -> float | None:
    turns = [len(one.trajectory.turns) for one in experiences if _verdict(one) == verdict]
    return fmean(turns) if turns else None


def _counted(experiences: Sequence[Experience], name_of: Any) -> list[tuple[str, int, int, int]]:
    names = sorted({name_of(one) for one in experiences})
    verdicts = {name: Counter(_verdict(one) for one in experiences if name_of(one) == name) for name in names}
    return [(name, count.total(), count["success"], count["missing"]) for name, count in verdicts.items()]


def slow_history(experiences: Sequence[Experience]) -> list[tuple[Any, ...]]:
    """Returns the hours, since all was recorded in two."""
    hours = defaultdict[int, list[Experience]](list)
    for one in experiences:
        hours[int(_recorded_at(one) // 3_600)].append(one)
    return [
        (
            3_600 * hour,
            3_600,
            len(members),
            sum(_verdict(one) == "success" for one in members),
            sum(_verdict(one) == "missing" for one in members),
            sum(one.trajectory.usage.prompt_tokens for one in members),
            sum(one.trajectory.usage.written_tokens for one in members),
            pytest.approx(sum(one.trajectory.usage.seconds for one in members)),
        )
        for hour, members in sorted(hours.items())
    ]
