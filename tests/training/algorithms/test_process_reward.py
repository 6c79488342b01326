"""Process reward models: against plain torch, known probabilities recovered, exact resuming, refusals."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import PreTrainedModel

from upturn.config import OptimiserSettings
from upturn.errors import ConfigError, TrainingError
from upturn.records import Trajectory
from upturn.training.algorithms.process_reward import ProcessRewardSettings, run_process_reward
from upturn.training.distributed.weights import weight_tensors
from upturn.training.optimisation import Trainer, state_values, value_model
from upturn.training.reward_models import LabelledTrajectory, logistic, model_outputs, outcome_targets, read_rows
from upturn.training.runs import RunOptions, read_curve
from upturn.training.runs.curve import CurvePoint
from upturn.training.runs.run_folder import CURVE_FILE

Model = Callable[..., PreTrainedModel]
Make = Callable[..., Trajectory]
RATES = {8: 0.8, 9: 0.2}
"""Success probability after the first turn, by its token; the second turn writes 5 and succeeds, or 6 and fails."""


def _attempt(make: Make, first: int, second: int, name: str, task: str = "") -> Trajectory:
    return make((1, 7, first, 2, second, 3), ((0, 2, 3), (1, 4, 5)), name=name, task=task or name)


def _labelled(trajectory: Trajectory, *, is_success: bool) -> LabelledTrajectory:
    targets = outcome_targets(len(trajectory.turns), is_success=is_success)
    return LabelledTrajectory(trajectory, targets, is_success)


def _coins(make: Make, count: int, seed: int) -> list[LabelledTrajectory]:
    rng = np.random.default_rng(seed)
    return [
        _labelled(_attempt(make, first, 5 if won else 6, f"{first}-{index}"), is_success=bool(won))
        for first, rate in RATES.items()
        for index, won in enumerate(rng.random(count) < rate)
    ]


def _curve(folder: Path) -> Sequence[CurvePoint]:
    return read_curve(folder / CURVE_FILE)


def test_training_equals_plain_torch(tiny_model: Model, make_trajectory: Make, tmp_path: Path) -> None:
    """Soft targets, one of them unknown: its turn is not read."""
    labelled = [
        LabelledTrajectory(_attempt(make_trajectory, 8, 5, "a"), (0.75, 1.0), True),
        LabelledTrajectory(_attempt(make_trajectory, 9, 6, "b"), (None, 0.0), False),
    ]
    settings = ProcessRewardSettings(
        epochs=5, decay="none", evaluate_every=None, optimiser=OptimiserSettings(learning_rate=5e-3)
    )
    ours, plain = value_model(tiny_model()), value_model(tiny_model())
    for model in (ours, plain):
        with torch.no_grad():
            model.get_output_embeddings().weight.normal_(0, 1, generator=torch.Generator().manual_seed(5))
    run_process_reward(ours, labelled, settings, RunOptions(0, tmp_path))
    optimiser = torch.optim.AdamW(plain.parameters(), lr=5e-3, betas=(0.9, 0.95), weight_decay=0.0)
    losses = []
    for _ in range(settings.epochs):
        optimiser.zero_grad()
        outputs = []
        for tokens in ([1, 7, 8, 2, 5], [1, 7, 9, 2, 6]):
            hidden = plain.get_decoder()(input_ids=torch.tensor([tokens])).last_hidden_state[0]
            outputs.append(plain.get_output_embeddings()(hidden)[:, 0])
        read = torch.stack([outputs[0][2], outputs[0][4], outputs[1][4]])  # at the last token of each turn
        targets = torch.tensor([0.75, 1.0, 0.0])
        loss = torch.nn.functional.binary_cross_entropy_with_logits(read, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(plain.parameters(), 1.0)
        optimiser.step()
        losses.append(float(loss.detach()))
    assert [point.metrics["loss"] for point in _curve(tmp_path)] == pytest.approx(losses, abs=1e-5)
    for name, tensor in weight_tensors(ours).items():
        assert torch.allclose(tensor, weight_tensors(plain)[name], atol=1e-4), name


def test_the_probability_of_success_is_recovered(tiny_model: Model, make_trajectory: Make, tmp_path: Path) -> None:
    labelled = _coins(make_trajectory, 400, seed=0)
    settings = ProcessRewardSettings(
        epochs=12, batch_trajectories=200, evaluate_every=None, optimiser=OptimiserSettings(learning_rate=5e-3)
    )
    model = value_model(tiny_model())
    run_process_reward(model, labelled, settings, RunOptions(0, tmp_path))
    probes = [_attempt(make_trajectory, first, second, "probe") for first in RATES for second in (5, 6)]
    rows = [read_rows(probe, "process") for probe in probes]
    scorer = Trainer(model, OptimiserSettings(), read=state_values).score
    read = [logistic(outputs.tolist()) for outputs in model_outputs(scorer, rows)]
    for first, rate in RATES.items():
        after_first = read[2 * list(RATES).index(first)][0]
        # 400 coins: a correct estimate is beyond 4.5 standard errors (0.02 each) with probability 7e-6; 0.03 for
        # training that has not ended at the optimum
        assert abs(after_first - rate) < 4.5 * math.sqrt(rate * (1 - rate) / 400) + 0.03
    for outputs, second in zip(read, (5, 6, 5, 6), strict=True):
        assert (outputs[1] > 0.9) == (second == 5), read
        assert (outputs[1] < 0.1) == (second == 6), read


def test_held_out_turns_are_evaluated_from_a_half_on(
    tiny_model: Model, make_trajectory: Make, tmp_path: Path
) -> None:
    labelled = _coins(make_trajectory, 40, seed=1)
    settings = ProcessRewardSettings(
        epochs=12, batch_trajectories=20, aggregation="last", optimiser=OptimiserSettings(learning_rate=5e-3)
    )
    model = value_model(tiny_model())
    result = run_process_reward(
        model, labelled[4:-4], settings, RunOptions(0, tmp_path), held_out=[*labelled[:4], *labelled[-4:]]
    )
    scores = [point.metrics["score"] for point in _curve(tmp_path) if "score" in point.metrics]
    assert scores[0] == pytest.approx(-0.25)  # every probability is ½
    assert result.held_out is not None
    assert result.held_out.brier.n == 16
    assert result.held_out.brier.mean < 0.15
    assert result.held_out.separation == 1.0  # the last turn shows the outcome
    assert scores[-1] == pytest.approx(-result.held_out.brier.mean)


class _KilledError(Exception):
    """The process ends."""


def test_a_resumed_run_equals_one_that_was_not_interrupted(
    tiny_model: Model, make_trajectory: Make, tmp_path: Path
) -> None:
    labelled = _coins(make_trajectory, 10, seed=2)
    settings = ProcessRewardSettings(
        epochs=3, batch_trajectories=6, checkpoint_every=2, optimiser=OptimiserSettings(learning_rate=5e-3)
    )

    def run(folder: Path, data: Sequence[LabelledTrajectory], stop: int | None = None) -> PreTrainedModel:
        def die(point: CurvePoint) -> None:
            if point.units == stop:
                raise _KilledError

        model = value_model(tiny_model())
        run_process_reward(model, data, settings, RunOptions(3, folder, progress=die), held_out=labelled[-2:])
        return model

    whole = run(tmp_path / "whole", labelled[:-2])
    with pytest.raises(_KilledError):
        run(tmp_path / "killed", labelled[:-2], stop=5)
    resumed = run(tmp_path / "killed", labelled[:-2])
    for name, tensor in weight_tensors(whole).items():
        assert torch.equal(tensor, weight_tensors(resumed)[name]), name
    changed = [replace(labelled[0], targets=(0.5, 0.5)), *labelled[1:-2]]
    with pytest.raises(TrainingError, match="belongs to another run: turns"):
        run(tmp_path / "killed", changed)


def test_data_that_cannot_be_trained_on_is_refused(
    tiny_model: Model, make_trajectory: Make, tmp_path: Path
) -> None:
    good = _labelled(_attempt(make_trajectory, 8, 5, "good"), is_success=True)
    quiet = ProcessRewardSettings(evaluate_every=None)

    def run(
        data: Sequence[LabelledTrajectory],
        settings: ProcessRewardSettings = quiet,
        held: Sequence[LabelledTrajectory] = (),
    ) -> None:
        run_process_reward(value_model(tiny_model()), data, settings, RunOptions(0, tmp_path), held_out=held)

    with pytest.raises(
        TrainingError, match="none of the 1 trajectories has a turn with written tokens and a target"
    ):
        run([replace(good, targets=(None, None))])
    with pytest.raises(TrainingError, match="'good' has 2 turns and 1 targets"):
        run([replace(good, targets=(1.0,))])
    with pytest.raises(TrainingError, match=r"turn 1 of trajectory 'good' has the target 1\.5"):
        run([replace(good, targets=(1.0, 1.5))])
    with pytest.raises(TrainingError, match="is of task 'good', which is trained on too"):
        run([good], held=[good])
    with pytest.raises(TrainingError, match="evaluate_every=1 with 0 held-out trajectories"):
        run([good], ProcessRewardSettings())
    with pytest.raises(ConfigError, match="continuations=4 would do nothing with targets='outcome'"):
        ProcessRewardSettings(continuations=4)
