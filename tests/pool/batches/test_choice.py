from dataclasses import replace

import pytest

from upturn.pool import Priorities
from upturn.pool.batches.choice import Candidate, is_held_out, limited, ranked, strategy_of
from upturn.records import Action, EvaluationVerdict, Observation, Trajectory, Turn


def candidate(
    trajectory: int,
    *,
    task: int | None = None,
    verdict: EvaluationVerdict = "success",
    score: float | None = None,
    written_tokens: int = 10,
    family: str = "mail",
) -> Candidate:
    return Candidate(family, trajectory, task or trajectory, None, verdict, score, written_tokens)


def first(candidates: list[Candidate], priorities: Priorities, seed: int) -> Candidate:
    return ranked(candidates, priorities, seed)[0]


MANY = 2000
"""Draws; a share is off by more than .05 with probability below 1e-5 (4.4 standard deviations of a binomial)."""


def test_without_priorities_every_candidate_is_first_as_often() -> None:
    candidates = [candidate(number) for number in range(1, 5)]
    firsts = [first(candidates, Priorities(), seed).trajectory for seed in range(MANY)]
    for number in range(1, 5):
        assert firsts.count(number) / MANY == pytest.approx(0.25, abs=0.05)


def test_a_priority_makes_points_likelier_by_its_exponential() -> None:
    """exp(1) to 1 for a success before a failure: .731."""
    candidates = [candidate(1), candidate(2, verdict="failure")]
    wins = sum(first(candidates, Priorities(success=1.0), seed).trajectory == 1 for seed in range(MANY))
    assert wins / MANY == pytest.approx(0.731, abs=0.05)


def test_values_of_priorities() -> None:
    """With the largest priority, the point of the highest value is first whatever the seed."""
    seeds = range(50)
    scored = [candidate(1, score=0.2), candidate(2, score=0.9), candidate(3, verdict="failure")]
    assert {first(scored, Priorities(success=50.0), seed).trajectory for seed in seeds} == {2}
    assert {first(scored, Priorities(success=-50.0), seed).trajectory for seed in seeds} <= {3}
    short = [
        candidate(1, written_tokens=30),
        candidate(2, written_tokens=20),
        candidate(3, written_tokens=1, verdict="failure"),
        candidate(4, written_tokens=90, family="files"),
    ]
    firsts = {first(short, Priorities(efficiency=50.0), seed).trajectory for seed in seeds}
    assert firsts <= {2, 4}, "4 is the only success of its family"
    novel = [candidate(number, task=9) for number in range(1, 9)] + [candidate(10)]
    assert {first(novel, Priorities(novelty=50.0), seed).trajectory for seed in seeds} == {10}


def test_a_task_has_at_most_so_many_points() -> None:
    order = [candidate(1, task=7), candidate(2, task=7), candidate(3, task=8), candidate(4, task=7)]
    assert [point.trajectory for point in limited(order, 1, {})] == [1, 3]
    assert [point.trajectory for point in limited(order, 2, {7: 1})] == [1, 3]
    assert list(limited(order, None, {7: 5})) == order


def test_about_the_share_of_tasks_is_held_out() -> None:
    share = sum(is_held_out(3, task, 0.2) for task in range(MANY)) / MANY
    assert share == pytest.approx(0.2, abs=0.05)
    assert not any(is_held_out(3, task, 0.0) for task in range(100))


@pytest.mark.parametrize("value", [51.0, -51.0, float("nan")])
def test_a_priority_beyond_its_limits_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="priority novelty must be from -50 to 50"):
        replace(Priorities(), novelty=value)


def test_a_strategy_is_the_actions_in_their_order_without_repeats() -> None:
    actions = [Action("mail", "open", {"id": 1}), Action("mail", "open", {"id": 2}), None, Action("", "done")]
    turns = tuple(Turn(Observation(""), "", action) for action in actions)
    trajectory = Trajectory("t", "task", "a@1", turns, Observation(""), "finished", "rendered")
    assert strategy_of(trajectory) == ("mail.open", "", "done")
