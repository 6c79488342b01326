"""The reward for few examples says what was judged; its controls say nothing of it."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upturn.records import Action, Evaluation, EvaluationVerdict, Observation, Trajectory, Turn
from upturn.rewards.acceptance import (
    acceptance,
    acceptance_rate,
    accepted_and_formed,
    random_acceptance,
    well_formed,
)

READABLE = Turn(Observation(""), "mail.list", Action("mail", "list"))
GARBLED = Turn(Observation(""), "mail list", None)


def _attempt(*turns: Turn, task: str = "task", attempt: int = 0, seed: int = 0) -> Trajectory:
    return Trajectory(
        "t", task, "nano@1", turns, Observation(""), "finished", "sampled", attempt=attempt, seed=seed
    )


def _judged(verdict: EvaluationVerdict) -> Evaluation:
    return Evaluation("v", "task", "t", "judge/1", verdict, (), {}, {}, None)


@pytest.mark.parametrize(
    ("verdict", "turn", "expected"),
    [
        ("success", READABLE, 1.0),
        ("success", GARBLED, 1 / 1.1),
        ("failure", READABLE, 0.1 / 1.1),
        ("failure", GARBLED, 0.0),
        ("missing", READABLE, None),
    ],
)
def test_acceptance_counts_ten_times_the_format(
    verdict: EvaluationVerdict, turn: Turn, expected: float | None
) -> None:
    assert accepted_and_formed(_attempt(READABLE, turn), _judged(verdict)) == (
        None if expected is None else pytest.approx(expected)
    )


@given(st.floats(0, 1, exclude_max=True))
def test_no_format_buys_an_acceptance(weight: float) -> None:
    best_rejected = accepted_and_formed(_attempt(READABLE), _judged("failure"), weight)
    worst_accepted = accepted_and_formed(_attempt(GARBLED), _judged("success"), weight)
    assert best_rejected is not None
    assert worst_accepted is not None
    assert best_rejected < worst_accepted


def test_an_attempt_without_turns_is_not_well_formed() -> None:
    assert [well_formed(each) for each in (_attempt(), _attempt(READABLE), _attempt(READABLE, GARBLED))] == [
        0,
        1,
        0,
    ]


def test_missing_judgements_are_no_rejections() -> None:
    verdicts: list[EvaluationVerdict] = ["success", "failure", "failure", "missing"]
    assert [acceptance(_judged(each)) for each in verdicts] == [1.0, 0.0, 0.0, None]
    assert acceptance_rate(map(_judged, verdicts)) == pytest.approx(1 / 3)
    assert acceptance_rate([_judged("missing")]) is None


def test_a_random_reward_comes_at_its_rate_and_knows_nothing_of_the_attempt() -> None:
    """2,000 draws: the share is off by more than 4 standard deviations with probability 6e-5, and what was done
    cannot matter because it is not looked at."""
    attempts = [_attempt(READABLE, seed=number) for number in range(2_000)]
    for rate in (0.05, 0.3, 0.5):
        drawn = [random_acceptance(each, rate=rate, seed=7) for each in attempts]
        assert set(drawn) == {0.0, 1.0}
        share, spread = sum(drawn) / len(drawn), math.sqrt(rate * (1 - rate) / len(drawn))
        assert abs(share - rate) < 4 * spread, "4 standard deviations: probability 6e-5"
        worse = [replace(each, turns=(GARBLED,), id="other", outcome="model_error") for each in attempts]
        assert [random_acceptance(each, rate=rate, seed=7) for each in worse] == drawn


def test_a_random_reward_repeats_itself_and_differs_by_seed_task_and_attempt() -> None:
    plain = [_attempt(seed=number) for number in range(64)]

    def draws(attempts: list[Trajectory], seed: int) -> list[float]:
        return [random_acceptance(each, rate=0.5, seed=seed) for each in attempts]

    assert draws(plain, 0) == draws(plain, 0)
    others = [replace(each, task_id="other") for each in plain]
    later = [replace(each, attempt=1) for each in plain]
    assert len({tuple(draws(each, seed)) for each, seed in ((plain, 0), (plain, 1), (others, 0), (later, 0))}) == 4


def test_certain_rates_are_certain() -> None:
    assert {random_acceptance(_attempt(seed=n), rate=1.0, seed=0) for n in range(50)} == {1.0}
    assert {random_acceptance(_attempt(seed=n), rate=0.0, seed=0) for n in range(50)} == {0.0}


def test_impossible_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match=r"rate must be in \[0, 1\], got 1.5"):
        random_acceptance(_attempt(), rate=1.5, seed=0)
    with pytest.raises(ValueError, match=r"the weight of the format must be in \[0, 1\), got 1"):
        accepted_and_formed(_attempt(READABLE), _judged("success"), 1)
