"""Training rows and how they are batched."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import settings

from upturn.errors import TrainingError
from upturn.records import TokenRow, Trajectory, WrittenSpan
from upturn.training import policy_rows, supervised_rows
from upturn.training.row import last_turn, turn_end_rows, written_by, written_count

Make = Callable[..., Trajectory]
QUICK = settings(deadline=None, max_examples=30)


def test_written_tokens_have_the_weight_of_their_turn(make_trajectory: Make) -> None:
    trajectory = make_trajectory((1, 5, 6, 2, 9, 7, 2), ((0, 2, 4), (1, 5, 7)), logprobs=(-0.1, -0.2, -0.3, -0.4))
    (row,) = policy_rows(trajectory, (0.5, -2.0))
    assert row.positions.tolist() == [2, 3, 5, 6]
    assert row.weights.tolist() == [0.5, 0.5, -2.0, -2.0]
    assert row.old_logprobs is not None
    assert row.old_logprobs.tolist() == pytest.approx([-0.1, -0.2, -0.3, -0.4])
    assert row.token_ids.tolist() == [1, 5, 6, 2, 9, 7, 2]


def test_tokens_of_other_weights_become_context(make_trajectory: Make) -> None:
    """Two of four tokens were written by w1 before a pause, the rest by w2."""
    row = TokenRow(
        (1, 5, 6, 2, 9, 7, 2),
        (WrittenSpan(0, 2, 3, "w1"), WrittenSpan(0, 3, 4), WrittenSpan(1, 5, 6, "w1"), WrittenSpan(1, 6, 7)),
        (-0.1, -0.2, -0.3, -0.4),
    )
    trajectory = replace(make_trajectory(turns=2), rows=(row,), model_version="w2")
    assert trajectory.model_versions == ("w1", "w2")
    assert written_by(trajectory, {"w1", "w2"}) == trajectory
    (left,) = policy_rows(written_by(trajectory, {"w2"}), (0.5, -2.0))
    assert left.token_ids.tolist() == [1, 5, 6, 2, 9, 7, 2]
    assert (left.positions.tolist(), left.weights.tolist()) == ([3, 6], [0.5, -2.0])
    assert left.old_logprobs is not None and left.old_logprobs.tolist() == pytest.approx([-0.2, -0.4])
    assert policy_rows(written_by(trajectory, {"w3"}), (0.5, -2.0)) == ()


def test_policy_rows_refuse_rendered_trajectories_and_supervised_rows_accept_them(make_trajectory: Make) -> None:
    rendered = make_trajectory(name="demonstration", origin="rendered", temperature=None)
    with pytest.raises(TrainingError, match="trajectory 'demonstration' is 'rendered'"):
        policy_rows(rendered, (1.0,))
    (row,) = supervised_rows([rendered])
    assert row.weights.tolist() == [1.0]
    assert row.old_logprobs is None


def test_policy_rows_refuse_other_temperatures(make_trajectory: Make) -> None:
    with pytest.raises(TrainingError, match=r"'t' was sampled at temperature 0\.7"):
        policy_rows(make_trajectory(temperature=0.7), (1.0,))


@pytest.mark.parametrize(
    "spans",
    [((0, 0, 2),), ((0, 3, 5),), ((0, 2, 2),), ((0, 2, 4), (1, 3, 4)), ((0, 3, 4), (1, 1, 2))],
    ids=["first token", "past the end", "empty", "overlapping", "descending"],
)
def test_impossible_spans_are_refused_by_name(
    make_trajectory: Make, spans: tuple[tuple[int, int, int], ...]
) -> None:
    with pytest.raises(TrainingError, match="trajectory 't' has written spans"):
        supervised_rows([make_trajectory(spans=spans)])


@pytest.mark.parametrize("logprobs", [(), (-1.0, -1.0), (float("nan"),), (float("-inf"),)])
def test_logprobs_must_be_one_finite_number_per_token(make_trajectory: Make, logprobs: tuple[float, ...]) -> None:
    with pytest.raises(TrainingError, match=r"'t' has \d sampler log-probs for 1 written tokens"):
        policy_rows(make_trajectory(logprobs=logprobs), (1.0,))


def test_a_turn_without_weight_is_refused(make_trajectory: Make) -> None:
    trajectory = make_trajectory((1, 5, 6, 7), ((0, 1, 2), (1, 3, 4)))
    with pytest.raises(TrainingError, match="written tokens in turn 1, but weights for 1 turns"):
        policy_rows(trajectory, (1.0,))
    with pytest.raises(TrainingError, match="written tokens in turn 0, but weights for 0 turns"):
        policy_rows(trajectory, ())


def test_weights_that_are_not_finite_are_refused(make_trajectory: Make) -> None:
    with pytest.raises(TrainingError, match="a missing reward is None"):
        policy_rows(make_trajectory(), (float("nan"),))


def test_rows_without_written_tokens_are_omitted(make_trajectory: Make) -> None:
    whole = make_trajectory()
    trajectory = replace(whole, rows=(*whole.rows, TokenRow((1, 2), (), ())))
    assert len(supervised_rows([trajectory])) == 1
    assert len(policy_rows(trajectory, (1.0,))) == 1


def test_splitting_a_rollout_into_rows_keeps_each_written_token_and_its_weight(make_trajectory: Make) -> None:
    whole = make_trajectory((1, 5, 6, 2, 9, 7, 2), ((0, 2, 4), (1, 5, 7)), logprobs=(-0.1, -0.2, -0.3, -0.4))
    split = replace(
        whole,
        rows=(
            TokenRow((1, 5, 6, 2), (WrittenSpan(0, 2, 4),), (-0.1, -0.2)),
            TokenRow((1, 9, 7, 2), (WrittenSpan(1, 2, 4),), (-0.3, -0.4), "history_changed"),
        ),
    )

    def weighted(trajectory: Trajectory) -> list[tuple[int, float]]:
        return [
            (int(row.token_ids[position]), float(weight))
            for row in policy_rows(trajectory, (0.5, -2.0))
            for position, weight in zip(row.positions, row.weights, strict=True)
        ]

    assert weighted(split) == weighted(whole)
    assert written_count(split) == written_count(whole) == 4


def test_the_end_of_a_turn_is_read_at_its_last_written_token(make_trajectory: Make) -> None:
    """A position is the token after; at the end of the row the last token stands in for it."""
    trajectory = make_trajectory((1, 5, 6, 2, 9, 7, 2), ((0, 2, 4), (1, 5, 7)))
    (row,) = turn_end_rows(trajectory, {0: 0.25, 1: 1.0})
    assert row.token_ids.tolist() == [1, 5, 6, 2, 9, 7, 2, 2]
    assert row.positions.tolist() == [4, 7]
    assert row.token_ids[row.positions - 1].tolist() == [2, 2]
    assert row.weights.tolist() == [0.25, 1.0]
    assert row.turns is not None
    assert row.turns.tolist() == [0, 1]
    (first,) = turn_end_rows(trajectory, {0: 0.25})
    assert first.token_ids.tolist() == [1, 5, 6, 2, 9]  # nothing later is computed
    assert turn_end_rows(trajectory, {}) == ()
    assert last_turn(trajectory) == 1


def test_a_turn_of_several_calls_ends_with_the_last_one(make_trajectory: Make) -> None:
    whole = make_trajectory((1, 5, 6, 2), ((0, 2, 4),))
    calls = TokenRow((1, 3, 8, 4), (WrittenSpan(0, 1, 2), WrittenSpan(1, 3, 4)), (-0.1, -0.2), "history_changed")
    (row,) = turn_end_rows(replace(whole, rows=(*whole.rows, calls)), {0: 0.0, 1: 1.0})
    assert row.token_ids.tolist() == [1, 3, 8, 4, 4]
    assert row.positions.tolist() == [2, 4]
    assert last_turn(replace(whole, rows=())) is None
