"""Rescoring a sample of an engine's tokens: correct ones pass, every kind of wrong ones is refused."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from transformers import PreTrainedModel

from upturn.config import OptimiserSettings
from upturn.errors import ConfigError, TrainingError
from upturn.records import Trajectory
from upturn.training.optimisation.sampler_check import Rescored, RescoringSettings, rescore
from upturn.training.optimisation.trainer import Trainer
from upturn.training.row import FloatArray, TrainingRow

Model = Callable[..., PreTrainedModel]
Make = Callable[..., Trajectory]
VERSION = "w1"


def sample_rollouts(
    model: PreTrainedModel, make: Make, count: int, *, temperature: float = 1.0
) -> list[Trajectory]:
    """Rollouts of four written tokens after a prompt of three, with the model's own log-probs."""
    rollouts = []
    for index in range(count):
        generator = torch.Generator().manual_seed(index)
        tokens, logprobs = [1, 5, 2], []
        for _ in range(4):
            with torch.no_grad():
                logits = model(input_ids=torch.tensor([tokens])).logits[0, -1]
            token = int(torch.multinomial(logits.softmax(-1), 1, generator=generator))
            logprobs.append(float((logits / temperature).log_softmax(-1)[token]))
            tokens.append(token)
        trajectory = make(tokens, ((0, 3, 7),), name=f"t{index}", logprobs=logprobs)
        rollouts.append(replace(trajectory, model_version=VERSION))
    return rollouts


def rescore_rollouts(model: PreTrainedModel, rollouts: Sequence[Trajectory], **changes: Any) -> Rescored:
    scorer = Trainer(model, OptimiserSettings(learning_rate=1e-3)).score
    return rescore(rollouts, scorer, version=VERSION, seed=3, settings=RescoringSettings(**changes))


def sharpen(model: PreTrainedModel, factor: float) -> None:
    embedding: Any = model.get_input_embeddings()
    with torch.no_grad():
        embedding.weight.mul_(factor)


def with_row(trajectory: Trajectory, **changes: Any) -> Trajectory:
    return replace(trajectory, rows=(replace(trajectory.rows[0], **changes),))


def test_tokens_with_the_models_own_logprobs_pass(tiny_model: Model, make_trajectory: Make) -> None:
    model = tiny_model()
    result = rescore_rollouts(model, sample_rollouts(model, make_trajectory, 12), trajectories=5)
    assert result.tokens == 5 * 4
    assert result.mean_gap <= result.largest_gap < 1e-5 and result.far_share == 0.0


def test_tokens_of_earlier_weights_are_not_scored(tiny_model: Model, make_trajectory: Make) -> None:
    """The first two of four tokens were written before a pause; their log-probs are those of other weights."""
    model = tiny_model()
    (rollout,) = sample_rollouts(model, make_trajectory, 1)
    (row,) = rollout.rows
    earlier, later = replace(row.spans[0], stop=5, model_version="w0"), replace(row.spans[0], start=5)
    mixed = with_row(rollout, spans=(earlier, later), logprobs=(-9.0, -9.0, *row.logprobs[2:]))
    result = rescore_rollouts(model, [mixed])
    assert result.tokens == 2 and result.largest_gap < 1e-5


def test_retokenised_ids_are_refused_by_name(tiny_model: Model, make_trajectory: Make) -> None:
    model = tiny_model()
    sharpen(model, 40)  # makes any other id unlikely
    rollouts = sample_rollouts(model, make_trajectory, 3)
    assert rescore_rollouts(model, rollouts).far_share == 0.0
    tokens = rollouts[1].rows[0].token_ids
    retokenised = with_row(rollouts[1], token_ids=(*tokens[:4], (tokens[4] + 1) % 20, *tokens[5:]))
    with pytest.raises(
        TrainingError, match=r"returns other tokens than it sampled.*12 rescored tokens.*trajectory 't1'"
    ):
        rescore_rollouts(model, [rollouts[0], retokenised, rollouts[2]])


def test_logprobs_of_other_weights_and_of_a_changed_prompt_are_refused(
    tiny_model: Model, make_trajectory: Make
) -> None:
    model = tiny_model()
    rollouts = sample_rollouts(tiny_model(seed=5), make_trajectory, 4)
    with pytest.raises(TrainingError, match="log-probs of other weights"):
        rescore_rollouts(model, rollouts, mean_gap=1e-3)
    swapped = [with_row(rollout, token_ids=(1, 9, 9, *rollout.rows[0].token_ids[3:])) for rollout in rollouts]
    with pytest.raises(TrainingError, match="returns other tokens than it sampled"):
        rescore_rollouts(tiny_model(seed=5), swapped, mean_gap=1e-3)


def test_logprobs_at_an_undeclared_temperature_are_refused(tiny_model: Model, make_trajectory: Make) -> None:
    model = tiny_model()
    sharpen(model, 10)
    with pytest.raises(TrainingError, match="nats on average"):
        rescore_rollouts(model, sample_rollouts(model, make_trajectory, 4, temperature=0.5))


def test_a_nan_score_counts_as_far_off(make_trajectory: Make) -> None:
    def broken(rows: Sequence[TrainingRow]) -> list[FloatArray]:
        return [np.full(len(row.positions), math.nan, dtype=np.float32) for row in rows]

    with pytest.raises(TrainingError, match="differ by inf nats"):
        rescore([replace(make_trajectory(), model_version=VERSION)], broken, version=VERSION, seed=0)


def test_the_share_of_far_tokens_decides_not_a_single_one(make_trajectory: Make) -> None:
    def scores(rows: Sequence[TrainingRow]) -> list[FloatArray]:
        return [np.array([-1.0 - 1.5 * (row.trajectory_id == "t0")], dtype=np.float32) for row in rows]

    rollouts = [replace(make_trajectory(name=f"t{index}"), model_version=VERSION) for index in range(40)]
    settings = RescoringSettings(trajectories=40, far_share=0.025)
    result = rescore(rollouts, scores, version=VERSION, seed=0, settings=settings)
    assert result == pytest.approx((40, 1.5 / 40, 1.5, 0.025))
    with pytest.raises(TrainingError, match=r"2\.50% of them by more than 1 \(allowed 2\.00%\)"):
        rescore(rollouts, scores, version=VERSION, seed=0, settings=replace(settings, far_share=0.02))


def test_the_sample_depends_on_ids_and_seed_only(make_trajectory: Make) -> None:
    def sampled_ids(trajectories: Sequence[Trajectory], seed: int) -> set[str]:
        ids: set[str] = set()

        def scores(rows: Sequence[TrainingRow]) -> list[FloatArray]:
            ids.update(row.trajectory_id for row in rows)
            return [np.full(len(row.positions), -1.0, dtype=np.float32) for row in rows]

        rescore(trajectories, scores, version=VERSION, seed=seed)
        return ids

    rollouts = [replace(make_trajectory(name=f"t{index}"), model_version=VERSION) for index in range(30)]
    assert sampled_ids(rollouts, 1) == sampled_ids(rollouts[::-1], 1)
    assert len(sampled_ids(rollouts, 1)) == 8
    assert sampled_ids(rollouts, 1) != sampled_ids(rollouts, 2)


def test_scoring_with_other_weights_is_refused(make_trajectory: Make) -> None:
    with pytest.raises(TrainingError, match="sampled with weights 'w0', but would be scored with 'w1'"):
        rescore([replace(make_trajectory(), model_version="w0")], lambda _: [], version=VERSION, seed=0)


def test_trajectories_without_tokens_are_skipped(make_trajectory: Make) -> None:
    result = rescore([replace(make_trajectory(), rows=())], lambda _: [], version=VERSION, seed=0)
    assert result.tokens == 0 and math.isnan(result.mean_gap)


def test_all_invalid_settings_are_reported_together() -> None:
    with pytest.raises(ConfigError) as caught:
        RescoringSettings(0, math.nan, -1.0, 1.0)
    assert len(caught.value.problems) == 4
