"""Supervised training memorises, and stops and resumes without a trace."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import PreTrainedModel

from upturn.config import OptimiserSettings
from upturn.errors import TrainingError
from upturn.records import Trajectory
from upturn.training import TrainingRow, supervised_rows
from upturn.training.algorithms.epochs import EpochSteps, epoch_order
from upturn.training.algorithms.sft import SftSettings, held_out_loss, run_sft, supervised_steps
from upturn.training.distributed.weights import copy_tensors, weight_tensors
from upturn.training.optimisation.trainer import Trainer
from upturn.training.runs import RunOptions, read_curve
from upturn.training.runs.curve import CurvePoint
from upturn.training.runs.run_folder import CURVE_FILE, read_description

Model = Callable[..., PreTrainedModel]
Make = Callable[..., Trajectory]
# four sequences that differ in their second token, so a model that uses its context can learn all of them
SEQUENCES = ((1, 3, 9, 4, 7, 2), (1, 4, 11, 8, 2), (1, 5, 15, 10, 6, 12, 2), (1, 6, 3, 3, 2))


def _rows(make_trajectory: Make) -> tuple[TrainingRow, ...]:
    return supervised_rows(
        make_trajectory(tokens, ((0, 2, len(tokens)),), origin="rendered", name=f"t{index}")
        for index, tokens in enumerate(SEQUENCES)
    )


def test_four_sequences_are_memorised(tiny_model: Model, make_trajectory: Make, tmp_path: Path) -> None:
    model, rows = tiny_model(), _rows(make_trajectory)
    plan = SftSettings(epochs=60, batch_rows=4, optimiser=OptimiserSettings(learning_rate=1e-2))
    outcome = run_sft(model, rows, plan, RunOptions(0, tmp_path))
    assert (outcome.steps, outcome.kept, outcome.stopped) == (60, "final", "finished")
    for tokens in SEQUENCES:
        with torch.no_grad():
            predicted = model(torch.tensor([tokens])).logits[0].argmax(-1).tolist()
        assert predicted[1:-1] == list(tokens[2:])
    curve = read_curve(tmp_path / CURVE_FILE)
    assert [point.units for point in curve] == list(range(1, 61))
    losses = [point.metrics["loss"] for point in curve]
    assert losses[0] is not None and losses[-1] is not None
    assert losses[0] > 2.0
    assert losses[-1] < 0.05


def test_only_written_tokens_are_learned(make_trajectory: Make) -> None:
    steps = supervised_steps(_rows(make_trajectory), 4, seed=0)
    (minibatch,) = steps.unit(0).minibatches
    written = [int(row.token_ids[position]) for row in minibatch[0].rows for position in row.positions]
    assert Counter(written) == Counter(token for tokens in SEQUENCES for token in tokens[2:])


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**40), st.integers(0, 50), st.integers(1, 30))
def test_the_order_of_an_epoch_is_a_permutation_by_seed_and_epoch(seed: int, epoch: int, count: int) -> None:
    order = epoch_order(count, seed, epoch)
    assert sorted(order) == list(range(count))
    assert order == epoch_order(count, seed, epoch)


def test_orders_differ_between_epochs_and_seeds() -> None:
    orders = {tuple(epoch_order(40, seed, epoch)) for seed in range(3) for epoch in range(3)}
    assert len(orders) == 9


def test_the_epoch_order_is_pinned() -> None:
    """A checkpoint names no rows: another order in another version would train some rows twice and others never."""
    assert epoch_order(8, seed=0, epoch=0) == [2, 4, 3, 6, 5, 0, 1, 7]
    assert epoch_order(8, seed=0, epoch=1) == [1, 3, 7, 6, 0, 4, 2, 5]
    assert epoch_order(8, seed=7, epoch=3) == [3, 5, 0, 4, 2, 7, 1, 6]


def test_a_step_has_the_same_rows_whatever_the_previous_call(make_trajectory: Make) -> None:
    """A pure function of (seed, epoch, step): in any order, repeated, or by a new object."""
    rows = _rows(make_trajectory)

    def step(steps: EpochSteps, index: int) -> list[str]:
        return [row.trajectory_id for row in steps.unit(index).minibatches[0][0].rows]

    straight = supervised_steps(rows, 3, seed=4)
    expected = [step(straight, index) for index in range(10)]
    jumping = supervised_steps(rows, 3, seed=4)
    for index in (9, 0, 5, 5, 2, 8, 1):
        assert step(jumping, index) == expected[index]
        assert step(supervised_steps(rows, 3, seed=4), index) == expected[index]
    assert len({tuple(names) for names in expected}) > 2


def test_an_epoch_has_every_row_once_and_duplicates_twice(make_trajectory: Make) -> None:
    rows = _rows(make_trajectory)
    steps = supervised_steps((*rows, rows[0]), 2, seed=3)
    assert steps.per_epoch == 3
    for epoch in range(2):
        seen = Counter(
            row.trajectory_id for step in range(3) for row in steps.unit(3 * epoch + step).minibatches[0][0].rows
        )
        assert seen == {"t0": 2, "t1": 1, "t2": 1, "t3": 1}


def test_every_token_weighs_the_same_in_every_step(make_trajectory: Make) -> None:
    """15 written tokens in 4 rows: with 3 rows a step, each step divides by 11.25, the short one too."""
    steps = supervised_steps(_rows(make_trajectory), 3, seed=0)
    streams = [steps.unit(index).minibatches[0][0] for index in range(2)]
    assert [len(stream.rows) for stream in streams] == [3, 1]
    assert [stream.denominator for stream in streams] == [11.25, 11.25]


class _InterruptedError(Exception):
    """Stops a run in a test."""


@pytest.mark.parametrize("stop_at", [1, 4, 5, 8])
def test_a_resumed_run_has_bitwise_the_weights_of_an_uninterrupted_one(
    tiny_model: Model, make_trajectory: Make, tmp_path: Path, stop_at: int
) -> None:
    rows = _rows(make_trajectory)
    plan = SftSettings(
        epochs=4,
        batch_rows=2,
        optimiser=OptimiserSettings(learning_rate=1e-2, warmup_steps=3),
        decay="cosine",
        checkpoint_every=3,
    )
    undisturbed = tiny_model()
    expected = run_sft(undisturbed, rows, plan, RunOptions(5, tmp_path / "a"))

    def stop(point: CurvePoint) -> None:
        if point.units == stop_at:
            raise _InterruptedError

    with pytest.raises(_InterruptedError):
        run_sft(tiny_model(), rows, plan, RunOptions(5, tmp_path / "b", progress=stop))
    resumed = tiny_model()
    outcome = run_sft(resumed, rows, plan, RunOptions(5, tmp_path / "b"))
    assert outcome == expected
    ours = weight_tensors(resumed)
    assert all(torch.equal(tensor, ours[name]) for name, tensor in weight_tensors(undisturbed).items())
    curves = [read_curve(tmp_path / folder / CURVE_FILE) for folder in ("a", "b")]
    assert [(point.units, point.metrics["loss"]) for point in curves[0]] == [
        (point.units, point.metrics["loss"]) for point in curves[1]
    ]


def test_a_finished_run_is_not_repeated(tiny_model: Model, make_trajectory: Make, tmp_path: Path) -> None:
    rows, plan = _rows(make_trajectory), SftSettings(epochs=2, batch_rows=4)
    first = tiny_model()
    outcome = run_sft(first, rows, plan, RunOptions(0, tmp_path))
    points: list[CurvePoint] = []
    again = tiny_model()
    assert run_sft(again, rows, plan, RunOptions(0, tmp_path, progress=points.append)) == outcome
    assert points == []
    ours = weight_tensors(again)
    assert all(torch.equal(tensor, ours[name]) for name, tensor in weight_tensors(first).items())


def test_best_weights_are_those_of_the_best_evaluated_epoch(
    tiny_model: Model, make_trajectory: Make, tmp_path: Path
) -> None:
    """Scores by epoch: .1 (untrained), .9, .5, .9 again: the weights of the first best are kept."""
    model, evaluated = tiny_model(), list[int]()
    at_best: dict[str, torch.Tensor] = {}

    def evaluate(epochs: int) -> float:
        evaluated.append(epochs)
        if epochs == 1:
            at_best.update(copy_tensors(weight_tensors(model)))
        return {0: 0.1, 1: 0.9, 2: 0.5, 3: 0.9}[epochs]

    plan = SftSettings(epochs=3, batch_rows=2, evaluate_every=1, keep="best")
    outcome = run_sft(model, _rows(make_trajectory), plan, RunOptions(0, tmp_path, evaluate=evaluate))
    assert evaluated == [0, 1, 2, 3]
    assert (outcome.best_score, outcome.final_score, outcome.kept_units, outcome.units) == (0.9, 0.9, 2, 6)
    assert all(torch.equal(at_best[name], tensor) for name, tensor in weight_tensors(model).items())


def test_held_out_loss_is_the_mean_over_written_tokens(tiny_model: Model, make_trajectory: Make) -> None:
    model, rows = tiny_model(), _rows(make_trajectory)
    total, count = 0.0, 0
    for tokens in SEQUENCES:
        with torch.no_grad():
            logprobs = model(torch.tensor([tokens])).logits[0].log_softmax(-1)
        for place in range(2, len(tokens)):
            total -= float(logprobs[place - 1, tokens[place]])
            count += 1
    trainer = Trainer(model, OptimiserSettings(micro_batch_tokens=10))
    assert held_out_loss(trainer, rows) == pytest.approx(total / count, rel=1e-5)


def test_training_stops_when_held_out_loss_stops_falling_and_keeps_the_best_weights(
    tiny_model: Model, make_trajectory: Make, tmp_path: Path
) -> None:
    """The held-out row starts like a trained one and ends otherwise: learning by heart makes it worse."""
    model, rows = tiny_model(), _rows(make_trajectory)
    other = make_trajectory((1, 3, 9, 4, 8, 15), ((0, 2, 6),), origin="rendered", name="other")
    held_out = supervised_rows([other])
    plan = SftSettings(
        epochs=60,
        batch_rows=4,
        optimiser=OptimiserSettings(learning_rate=1e-2),
        evaluate_every=1,
        patience=3,
        keep="best",
    )
    outcome = run_sft(model, rows, plan, RunOptions(0, tmp_path, evaluate=held_out))
    scores = [point.metrics["score"] for point in read_curve(tmp_path / CURVE_FILE)]
    assert outcome.stopped == "patience"
    assert 1 < outcome.kept_units == outcome.units - 3 < 57
    assert outcome.best_score == scores[outcome.kept_units] == max(score for score in scores if score is not None)
    assert -held_out_loss(Trainer(model, plan.optimiser), held_out) == outcome.best_score
    assert read_description(tmp_path).measure.startswith("minus the mean loss")


@pytest.mark.parametrize("stop_at", [1, 3])
def test_evaluating_held_out_rows_does_not_change_the_weights(
    tiny_model: Model, make_trajectory: Make, tmp_path: Path, stop_at: int
) -> None:
    rows, held_out = _rows(make_trajectory)[:3], _rows(make_trajectory)[3:]
    plain = SftSettings(epochs=2, batch_rows=1)
    settings_with_evaluations = SftSettings(epochs=2, batch_rows=1, evaluate_every=1, checkpoint_every=2)
    never, resumed = tiny_model(), tiny_model()
    run_sft(never, rows, plain, RunOptions(0, tmp_path / "a"))

    def stop(point: CurvePoint) -> None:
        if point.units == stop_at:
            raise _InterruptedError

    with pytest.raises(_InterruptedError):
        run_sft(
            tiny_model(),
            rows,
            settings_with_evaluations,
            RunOptions(0, tmp_path / "b", evaluate=held_out, progress=stop),
        )
    run_sft(resumed, rows, settings_with_evaluations, RunOptions(0, tmp_path / "b", evaluate=held_out))
    ours = weight_tensors(resumed)
    assert all(torch.equal(tensor, ours[name]) for name, tensor in weight_tensors(never).items())
    with pytest.raises(TrainingError, match="held-out rows is"):
        run_sft(tiny_model(), rows[1:], settings_with_evaluations, RunOptions(0, tmp_path / "b", evaluate=rows[:1]))


def test_trained_or_missing_held_out_rows_are_refused(
    tiny_model: Model, make_trajectory: Make, tmp_path: Path
) -> None:
    rows, plan = _rows(make_trajectory), SftSettings(evaluate_every=1)
    with pytest.raises(TrainingError, match="1 of 2 held-out rows are trained on too"):
        run_sft(tiny_model(), rows[:3], plan, RunOptions(0, tmp_path, evaluate=rows[2:]))
    with pytest.raises(TrainingError, match="there are no held-out rows"):
        run_sft(tiny_model(), rows, plan, RunOptions(0, tmp_path, evaluate=()))


def test_unusable_calls_are_refused(tiny_model: Model, make_trajectory: Make, tmp_path: Path) -> None:
    rows = _rows(make_trajectory)
    with pytest.raises(TrainingError, match="no rows to train on"):
        run_sft(tiny_model(), [], SftSettings(), RunOptions(0, tmp_path))
    with pytest.raises(TrainingError, match="seed must be 0 or more, got -1"):
        run_sft(tiny_model(), rows, SftSettings(), RunOptions(-1, tmp_path))
    with pytest.raises(TrainingError, match="evaluate_every=None with an evaluate function"):
        run_sft(tiny_model(), rows, SftSettings(), RunOptions(0, tmp_path, evaluate=lambda _: 1.0))
    with pytest.raises(TrainingError, match="evaluate_every=1 with no evaluate function"):
        run_sft(tiny_model(), rows, SftSettings(evaluate_every=1), RunOptions(0, tmp_path))
    with pytest.raises(TrainingError, match="evaluation after 0 units gave score nan"):
        run_sft(
            tiny_model(),
            rows,
            SftSettings(evaluate_every=1),
            RunOptions(0, tmp_path, evaluate=lambda _: float("nan")),
        )
