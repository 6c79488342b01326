"""The few-task reward follows the verdict; the control reward does not depend on it."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upturn.records import Action, Evaluation, EvaluationVerdict, Observation, Trajectory, Turn
from upturn.rewards.acceptance import (
    acceptance,
    acceptance_rate,
    acceptance_with_format,
    format_reward,
    random_acceptance,
)

READABLE = Turn(Observation(""), "mail.list", Action("mail", "list"))
GARBLED = Turn(Observation(""), "mail list", None)


def _trajectory(*turns: Turn, task: str = "task", attempt: int = 0, seed: int = 0) -> Trajectory:
    return Trajectory(
        "t", task, "nano@1", turns, Observation(""), "finished", "sampled", attempt=attempt, seed=seed
    )


def _evaluation(verdict: EvaluationVerdict) -> Evaluation:
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
def test_acceptance_weighs_ten_times_as_much_as_the_format(
    verdict: EvaluationVerdict, turn: Turn, expected: float | None
) -> None:
    assert acceptance_with_format(_trajectory(READABLE, turn), _evaluation(verdict)) == (
        None if expected is None else pytest.approx(expected)
    )


@given(st.floats(0, 1, exclude_max=True))
def test_a_well_formed_failure_earns_less_than_a_malformed_success(weight: float) -> None:
    best_rejected = acceptance_with_format(_trajectory(READABLE), _evaluation("failure"), weight)
    worst_accepted = acceptance_with_format(_trajectory(GARBLED), _evaluation("success"), weight)
    assert best_rejected is not None
    assert worst_accepted is not None
    assert best_rejected < worst_accepted


def test_a_trajectory_without_turns_is_not_well_formed() -> None:
    assert [
        format_reward(item) for item in (_trajectory(), _trajectory(READABLE), _trajectory(READABLE, GARBLED))
    ] == [
        0,
        1,
        0,
    ]


def test_missing_evaluations_are_not_failures() -> None:
    verdicts: list[EvaluationVerdict] = ["success", "failure", "failure", "missing"]
    assert [acceptance(_evaluation(verdict)) for verdict in verdicts] == [1.0, 0.0, 0.0, None]
    assert acceptance_rate(map(_evaluation, verdicts)) == pytest.approx(1 / 3)
    assert acceptance_rate([_evaluation("missing")]) is None


def test_a_random_reward_has_its_rate_and_ignores_the_trajectory() -> None:
    """2,000 draws: the share is off by more than 4 standard deviations with probability 6e-5."""
    trajectories = [_trajectory(READABLE, seed=number) for number in range(2_000)]
    for rate in (0.05, 0.3, 0.5):
        values = [random_acceptance(trajectory, rate=rate, seed=7) for trajectory in trajectories]
        assert set(values) == {0.0, 1.0}
        share, spread = sum(values) / len(values), math.sqrt(rate * (1 - rate) / len(values))
        assert abs(share - rate) < 4 * spread, "4 standard deviations: probability 6e-5"
        worse = [
            replace(trajectory, turns=(GARBLED,), id="other", outcome="model_error") for trajectory in trajectories
        ]
        assert [random_acceptance(item, rate=rate, seed=7) for item in worse] == values


def test_a_random_reward_repeats_and_depends_on_seed_task_and_attempt() -> None:
    plain = [_trajectory(seed=number) for number in range(64)]

    def draws(trajectories: list[Trajectory], seed: int) -> list[float]:
        return [random_acceptance(trajectory, rate=0.5, seed=seed) for trajectory in trajectories]

    assert draws(plain, 0) == draws(plain, 0)
    others = [replace(item, task_id="other") for item in plain]
    later = [replace(item, attempt=1) for item in plain]
    assert len({tuple(draws(each, seed)) for each, seed in ((plain, 0), (plain, 1), (others, 0), (later, 0))}) == 4


def test_rates_of_0_and_1_are_exact() -> None:
    assert {random_acceptance(_trajectory(seed=n), rate=1.0, seed=0) for n in range(50)} == {1.0}
    assert {random_acceptance(_trajectory(seed=n), rate=0.0, seed=0) for n in range(50)} == {0.0}


def test_invalid_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match=r"rate must be in \[0, 1\], got 1.5"):
        random_acceptance(_trajectory(), rate=1.5, seed=0)
    with pytest.raises(ValueError, match=r"the weight of the format must be in \[0, 1\), got 1"):
        acceptance_with_format(_trajectory(READABLE), _evaluation("success"), 1)
