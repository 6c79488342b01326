"""Outcome reward models: against plain torch, a linear reward recovered, exact resuming, refusals."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import PreTrainedModel

from upturn.config import OptimiserSettings
from upturn.errors import ConfigError, TrainingError
from upturn.records import PreferencePair, Trajectory
from upturn.training.algorithms.reward_model import RewardModelSettings, run_reward_model
from upturn.training.distributed.weights import weight_tensors
from upturn.training.optimisation import value_model
from upturn.training.reward_models import RewardModel, RewardModelDescription
from upturn.training.runs import RunOptions, read_curve
from upturn.training.runs.curve import CurvePoint
from upturn.training.runs.run_folder import CURVE_FILE

Model = Callable[..., PreTrainedModel]
Make = Callable[..., Trajectory]
TRUE = (-0.75, -0.25, 0.25, 0.75)
"""Rewards of 0 to 3 fives: linear."""


def _side(make: Make, fives: int, name: str, task: str) -> Trajectory:
    """A prompt, then three written tokens, so many of them fives."""
    tokens = (1, 7, 2, *([5] * fives), *([4] * (3 - fives)))
    return make(tokens, ((0, 3, 6),), name=name, task=task)


def _pair(make: Make, number: int, chosen: int, rejected: int, margin: float | None = 1.0) -> PreferencePair:
    better, worse = (
        _side(make, fives, f"{side}{number}", f"t{number}") for side, fives in (("c", chosen), ("r", rejected))
    )
    return PreferencePair(f"p{number:04}", better, worse, "group", margin)


def _few(make: Make) -> list[PreferencePair]:
    sides = [(3, 1), (2, 0), (3, 0), (2, 1), (1, 2)]
    return [_pair(make, number, *both, margin=0.5 + number) for number, both in enumerate(sides)]


def _plain(model: PreTrainedModel, pairs: Sequence[PreferencePair], settings: RewardModelSettings) -> list[float]:
    """The loss of each full-batch step by torch and transformers alone; trains the model."""
    optimiser = torch.optim.AdamW(
        model.parameters(),
        lr=settings.optimiser.learning_rate,
        betas=(settings.optimiser.beta1, settings.optimiser.beta2),
        weight_decay=0.0,
    )

    def reward(trajectory: Trajectory) -> torch.Tensor:
        ids = torch.tensor([trajectory.rows[0].token_ids])
        hidden = model.get_decoder()(input_ids=ids).last_hidden_state[0, -1]
        output: torch.Tensor = model.get_output_embeddings()(hidden)[0]
        return output

    losses = []
    for _ in range(settings.epochs):
        optimiser.zero_grad()
        loss = torch.zeros(())
        for pair in pairs:
            chosen, rejected = reward(pair.chosen), reward(pair.rejected)
            margin = settings.margin_coefficient * (pair.margin or 0.0)
            loss = loss - torch.nn.functional.logsigmoid(chosen - rejected - margin) / len(pairs)
            loss = loss + settings.centring * (chosen + rejected) ** 2 / len(pairs)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), settings.optimiser.max_grad_norm)
        optimiser.step()
        losses.append(float(loss.detach()))
    return losses


def _curve(folder: Path) -> Sequence[CurvePoint]:
    return read_curve(folder / CURVE_FILE)


def test_training_equals_plain_torch(tiny_model: Model, make_trajectory: Make, tmp_path: Path) -> None:
    settings = RewardModelSettings(
        epochs=6,
        decay="none",
        evaluate_every=None,
        margin_coefficient=0.3,
        centring=0.05,
        optimiser=OptimiserSettings(learning_rate=5e-3),
    )
    pairs = _few(make_trajectory)
    ours, plain = value_model(tiny_model()), value_model(tiny_model())
    for model in (ours, plain):
        with torch.no_grad():  # at a head of 0 the other gradients are 0, and rounding alone would steer AdamW
            model.get_output_embeddings().weight.normal_(0, 1, generator=torch.Generator().manual_seed(5))
    run_reward_model(ours, pairs, settings, RunOptions(0, tmp_path))
    losses = [point.metrics["loss"] for point in _curve(tmp_path)]
    assert losses == pytest.approx(_plain(plain, pairs, settings), rel=1e-6, abs=1e-5)
    for name, tensor in weight_tensors(ours).items():
        assert torch.allclose(tensor, weight_tensors(plain)[name], atol=1e-4), name


def _noisy_pairs(make: Make, per_comparison: int, seed: int) -> list[PreferencePair]:
    """Every comparison of two rewards, decided by Bradley–Terry coins."""
    rng = np.random.default_rng(seed)
    pairs: list[PreferencePair] = []
    for low, high in combinations(range(4), 2):
        wins = rng.random(per_comparison) < 1 / (1 + math.exp(TRUE[low] - TRUE[high]))
        pairs += [
            _pair(make, len(pairs) + index, *((high, low) if won else (low, high)))
            for index, won in enumerate(wins)
        ]
    return pairs


def _standard_errors(per_comparison: int) -> list[float]:
    """Of the maximum-likelihood rewards with mean 0, from the Fisher information."""
    information = np.zeros((4, 4))
    for low, high in combinations(range(4), 2):
        p = 1 / (1 + math.exp(TRUE[low] - TRUE[high]))
        side = np.zeros(4)
        side[[low, high]] = 1, -1
        information += per_comparison * p * (1 - p) * np.outer(side, side)
    errors: list[float] = np.sqrt(np.diag(np.linalg.pinv(information))).tolist()
    return errors


def test_a_linear_reward_is_recovered_up_to_a_constant(
    tiny_model: Model, make_trajectory: Make, tmp_path: Path
) -> None:
    pairs = _noisy_pairs(make_trajectory, 200, seed=0)
    settings = RewardModelSettings(
        epochs=20, batch_pairs=300, evaluate_every=None, optimiser=OptimiserSettings(learning_rate=5e-3)
    )
    model = value_model(tiny_model())
    result = run_reward_model(model, pairs, settings, RunOptions(0, tmp_path))
    reader = RewardModel(model, RewardModelDescription("outcome", result.mean, None, "toy@1"))
    scores = reader.scores([_side(make_trajectory, fives, str(fives), "t") for fives in range(4)])
    rewards = np.array([math.log(score / (1 - score)) for score in scores if score is not None])
    rewards -= rewards.mean()
    bounds = 4.5 * np.array(_standard_errors(200)) + 0.05
    # 0.05 for training that has not ended at the optimum; each of the four is beyond 4.5 standard errors of a
    # correct estimate with probability 7e-6
    assert (np.abs(rewards - TRUE) < bounds).all(), (rewards, bounds)
    assert bounds.max() < 0.45  # less than the distance of neighbours, so their order is recovered too
    assert abs(sum(map(float, scores)) / 4 - 0.5) < 0.05  # type: ignore[arg-type]  # centred on the training pairs


def test_centring_pulls_the_outputs_to_zero(tiny_model: Model, make_trajectory: Make, tmp_path: Path) -> None:
    """The head starts with a bias of 2, which no comparison sees."""
    means = []
    for name, centring in (("without", 0.0), ("with", 0.5)):
        model = value_model(tiny_model())
        with torch.no_grad():
            model.get_output_embeddings().bias.fill_(2.0)
        settings = RewardModelSettings(
            epochs=40, evaluate_every=None, centring=centring, optimiser=OptimiserSettings(learning_rate=2e-2)
        )
        means.append(run_reward_model(model, _few(make_trajectory), settings, RunOptions(0, tmp_path / name)).mean)
    assert abs(means[1]) < 0.1 < abs(means[0])


def test_held_out_pairs_are_evaluated_from_a_half_on(
    tiny_model: Model, make_trajectory: Make, tmp_path: Path
) -> None:
    pairs = [_pair(make_trajectory, number, 1 + number % 3, number % 3) for number in range(24)]
    settings = RewardModelSettings(epochs=6, batch_pairs=9, optimiser=OptimiserSettings(learning_rate=5e-3))
    model = value_model(tiny_model())
    result = run_reward_model(model, pairs[:18], settings, RunOptions(0, tmp_path), held_out=pairs[18:])
    scores = [point.metrics["score"] for point in _curve(tmp_path) if "score" in point.metrics]
    assert scores[0] == 0.5  # the head is 0
    assert len(scores) == 7
    assert scores[-1] == 1.0
    assert result.held_out is not None
    assert result.held_out.accuracy.mean == 1.0
    assert result.held_out.longer_preferred is None  # all sides are equally long


class _KilledError(Exception):
    """The process ends."""


def test_a_resumed_run_equals_one_that_was_not_interrupted(
    tiny_model: Model, make_trajectory: Make, tmp_path: Path
) -> None:
    pairs = [_pair(make_trajectory, number, 1 + number % 3, number % 3) for number in range(24)]
    settings = RewardModelSettings(
        epochs=3, batch_pairs=5, checkpoint_every=2, optimiser=OptimiserSettings(learning_rate=5e-3)
    )

    def run(folder: Path, stop: int | None = None, **changed: Any) -> tuple[PreTrainedModel, float]:
        def die(point: CurvePoint) -> None:
            if point.units == stop:
                raise _KilledError

        model = value_model(tiny_model())
        options = RunOptions(3, folder, progress=die)
        result = run_reward_model(model, pairs[:18], replace(settings, **changed), options, held_out=pairs[18:])
        return model, result.mean

    whole, mean = run(tmp_path / "whole")
    with pytest.raises(_KilledError):
        run(tmp_path / "killed", stop=7)
    resumed, same = run(tmp_path / "killed")
    assert same == mean
    for name, tensor in weight_tensors(whole).items():
        assert torch.equal(tensor, weight_tensors(resumed)[name]), name
    with pytest.raises(TrainingError, match=r"belongs to another run: setting centring"):
        run(tmp_path / "killed", centring=0.1)


def test_pairs_that_cannot_be_trained_on_are_refused(
    tiny_model: Model, make_trajectory: Make, tmp_path: Path
) -> None:
    pairs = _few(make_trajectory)
    quiet = RewardModelSettings(evaluate_every=None)

    def run(
        chosen: Sequence[PreferencePair], settings: RewardModelSettings = quiet, held: Sequence[PreferencePair] = ()
    ) -> None:
        run_reward_model(value_model(tiny_model()), chosen, settings, RunOptions(0, tmp_path), held_out=held)

    with pytest.raises(TrainingError, match="there are no pairs to train on"):
        run([])
    with pytest.raises(TrainingError, match=r"margin_coefficient=0\.5 has no effect: none of the 1 pairs"):
        run([replace(pairs[0], margin=None)], replace(quiet, margin_coefficient=0.5))
    with pytest.raises(TrainingError, match="'p0000' compares single turns"):
        run([replace(pairs[0], chosen_turns=(0,), rejected_turns=(0,))])
    with pytest.raises(TrainingError, match=r"held-out pair 'p0001' is of task 't1', which is trained on too"):
        run(pairs, held=pairs[1:2])
    with pytest.raises(TrainingError, match="evaluate_every=1 without held-out pairs"):
        run(pairs, RewardModelSettings())


def test_settings_without_effect_are_named() -> None:
    corrections = RewardModelSettings(groups=False)
    with pytest.raises(ConfigError, match=r"min_margin = 0\.2 has no effect on corrections, which have no margin"):
        replace(corrections, min_margin=0.2)
    with pytest.raises(ConfigError, match=r"margin_coefficient = 0\.2 has no effect on corrections"):
        replace(corrections, margin_coefficient=0.2)
    assert RewardModelSettings(min_margin=0.2, margin_coefficient=0.2).groups
