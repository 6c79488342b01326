"""Rows of pairs: signs, turns, references; and unusable pairs are refused by name."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from upturn.config import Packing
from upturn.errors import TrainingError
from upturn.records import PreferencePair, Trajectory
from upturn.training.data.pair_row import add_reference, pair_rows
from upturn.training.optimisation.batch import micro_batches, written_tokens
from upturn.training.pair_settings import PairObjectiveSettings

Make = Callable[..., Trajectory]
PLAIN = PairObjectiveSettings()
SPANS = ((0, 2, 4), (1, 5, 6))


def _pair(make: Make, name: str = "p", **changes: object) -> PreferencePair:
    """Three and three written tokens in two turns; the first turn is alike."""
    chosen = make((1, 2, 7, 8, 3, 9), SPANS, name="good", logprobs=(-0.1, -0.2, -0.3))
    rejected = make((1, 2, 7, 8, 3, 5), SPANS, name="bad", logprobs=(-0.1, -0.2, -0.6))
    return replace(PreferencePair(name, chosen, rejected, "group", 1.0), **changes)  # type: ignore[arg-type]


def test_chosen_sides_have_positive_and_rejected_sides_negative_weights(make_trajectory: Make) -> None:
    (paired,) = pair_rows([_pair(make_trajectory)], PLAIN, "initial")
    assert [(row.trajectory_id, row.pair, row.weights.tolist()) for row in paired.rows] == [
        ("good", "p", [1.0] * 3),
        ("bad", "p", [-1.0] * 3),
    ]
    assert all(row.reference_logprobs is None for row in paired.rows)
    (chosen,) = paired.chosen
    assert (chosen.trajectory_id, chosen.weights.tolist()) == ("good", [1.0] * 3)


def test_only_tokens_of_the_paired_turns_are_written(make_trajectory: Make) -> None:
    (paired,) = pair_rows([_pair(make_trajectory, chosen_turns=(1,), rejected_turns=(1,))], PLAIN, "recorded")
    assert [row.positions.tolist() for row in paired.rows] == [[5], [5]]
    references = [row.reference_logprobs for row in paired.rows]
    assert [reference.tolist() for reference in references if reference is not None] == [
        pytest.approx([-0.3]),
        pytest.approx([-0.6]),
    ]


def test_the_weights_of_a_length_normalised_side_add_up_to_one(make_trajectory: Make) -> None:
    longer = make_trajectory((1, 2, 7, 8, 9, 4), ((0, 2, 6),), name="long")
    pair = _pair(make_trajectory, rejected=longer, chosen_turns=(1,))
    (paired,) = pair_rows([pair], PairObjectiveSettings(is_length_normalised=True), "initial")
    assert [row.weights.tolist() for row in paired.rows] == [[1.0], [-0.25] * 4]


def test_a_recorded_reference_may_have_any_temperature(make_trajectory: Make) -> None:
    """The log-probs are those at temperature 1 whatever was drawn at."""
    pair = _pair(make_trajectory)
    warm = replace(pair, chosen=replace(pair.chosen, temperature=0.7))
    (paired,) = pair_rows([warm], PLAIN, "recorded")
    assert paired.rows[0].reference_logprobs is not None
    assert paired.rows[0].reference_logprobs.tolist() == pytest.approx([-0.1, -0.2, -0.3])


def test_each_row_gets_the_reference_log_probs_of_its_tokens(make_trajectory: Make) -> None:
    pairs = pair_rows([_pair(make_trajectory, name) for name in ("p", "q")], PLAIN, "initial")
    paired = add_reference(
        pairs, lambda rows: [np.full(3, place, dtype=np.float32) for place, _ in enumerate(rows)]
    )
    values = [row.reference_logprobs for pair in paired for row in pair.rows]
    assert [reference.tolist() for reference in values if reference is not None] == [
        [float(at)] * 3 for at in range(4)
    ]


@pytest.mark.parametrize("packing", ["tree", "padded"])
def test_both_sides_of_a_pair_are_in_one_micro_batch_and_a_trajectory_may_be_in_two_pairs(
    make_trajectory: Make, packing: Packing
) -> None:
    """However few tokens a batch may have; 'good' is in all three pairs."""
    others = [make_trajectory((1, 2, other), ((0, 2, 3),), name=f"bad{other}") for other in (4, 5)]
    pairs = [_pair(make_trajectory, "p")] + [
        _pair(make_trajectory, f"q{index}", rejected=other) for index, other in enumerate(others)
    ]
    rows = [row for pair in pair_rows(pairs, PLAIN, "initial") for row in pair.rows]
    batches = micro_batches(rows[::2] + rows[1::2], 1, packing)
    assert sorted(tuple(row.pair or "" for row in batch.rows) for batch in batches) == [
        ("p", "p"), ("q0", "q0"), ("q1", "q1"),
    ]  # fmt: skip
    (whole,) = micro_batches(rows, 1000, packing)
    assert whole.written.pairs.max() == 2
    assert len(np.unique(whole.written.sequences)) == 6
    for pair in range(3):
        ours = whole.written.pairs == pair
        assert len(np.unique(whole.written.sequences[ours])) == 2
        assert set(whole.written.weights[ours].tolist()) == {1.0, -1.0}


def test_rows_in_no_pair_have_no_index(make_trajectory: Make) -> None:
    (paired,) = pair_rows([_pair(make_trajectory)], PLAIN, "initial")
    alone = replace(paired.rows[0], pair=None)
    assert written_tokens([alone, *paired.rows]).pairs.tolist() == [-1] * 3 + [0] * 6
    assert written_tokens([alone, *paired.rows]).sequences.tolist() == [0] * 3 + [1] * 3 + [2] * 3


def test_untrainable_pairs_are_refused_by_name(make_trajectory: Make) -> None:
    pair = _pair(make_trajectory)

    def refused(message: str, *pairs: PreferencePair) -> None:
        with pytest.raises(TrainingError, match=message):
            pair_rows(pairs, PLAIN, "initial")

    refused("there are no pairs to train on")
    refused("two pairs have the id 'p'", pair, pair)
    elsewhere = replace(pair.rejected, task_id="other")
    refused("pair 'p' compares trajectories of task 'task' and of task 'other'", replace(pair, rejected=elsewhere))
    refused("pair 'p' has two equal sides", replace(pair, rejected=pair.chosen))
    refused("pair 'p' has two equal sides", replace(pair, rejected=replace(pair.chosen, id="twin")))
    refused("same", replace(pair, chosen_turns=(0,), rejected_turns=(0,)))
    refused(r"pair 'p' has the margin 0\.0", replace(pair, margin=0.0))
    refused(r"pair 'p' has the margin -1\.0", replace(pair, margin=-1.0))
    refused(r"pair 'p' has the margin nan", replace(pair, margin=float("nan")))
    refused("pair 'p' has nothing to train on: 'good' holds no written tokens", replace(pair, chosen_turns=(7,)))
    refused("'bad' holds no written tokens", replace(pair, rejected=replace(pair.rejected, rows=())))


def test_a_missing_reference_is_refused_by_name(make_trajectory: Make) -> None:
    pair = _pair(make_trajectory)
    rendered = make_trajectory((1, 2, 7, 8, 3, 5), SPANS, name="text", origin="rendered", temperature=None)
    with pytest.raises(
        TrainingError, match=r"'text' is 'rendered': it has no log-probs .* set reference='initial'"
    ):
        pair_rows([replace(pair, rejected=rendered)], PLAIN, "recorded")
    assert len(pair_rows([replace(pair, rejected=rendered)], PLAIN, "initial")) == 1
    (row,) = pair.rejected.rows
    for broken in ((), (-0.1, -0.2), (-0.1, -0.2, float("nan"))):
        silent = replace(pair.rejected, rows=(replace(row, logprobs=broken),))
        with pytest.raises(TrainingError, match=r"'bad' has \d sampler log-probs for 3 written tokens"):
            pair_rows([replace(pair, rejected=silent)], PLAIN, "recorded")
    newer = replace(pair.rejected, model_version="new")
    with pytest.raises(TrainingError, match="pair 'p' were sampled with other weights, '' and 'new'"):
        pair_rows([replace(pair, rejected=newer)], PLAIN, "recorded")
