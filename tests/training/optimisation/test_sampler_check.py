"""A sample of an engine's tokens scored again: honest ones pass, every kind of dishonest ones is refused."""

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


def sampled(model: PreTrainedModel, make: Make, count: int, *, temperature: float = 1.0) -> list[Trajectory]:
    """Rollouts of four written tokens after a prompt of three, with the model's own log-probs."""
    found = []
    for index in range(count):
        generator = torch.Generator().manual_seed(index)
        tokens, logprobs = [1, 5, 2], []
        for _ in range(4):
            with torch.no_grad():
                logits = model(input_ids=torch.tensor([tokens])).logits[0, -1]
            drawn = int(torch.multinomial(logits.softmax(-1), 1, generator=generator))
            logprobs.append(float((logits / temperature).log_softmax(-1)[drawn]))
            tokens.append(drawn)
        made = make(tokens, ((0, 3, 7),), name=f"t{index}", logprobs=logprobs)
        found.append(replace(made, model_version=VERSION))
    return found


def looked_at(model: PreTrainedModel, rollouts: Sequence[Trajectory], **changes: Any) -> Rescored:
    scorer = Trainer(model, OptimiserSettings(learning_rate=1e-3)).score
    return rescore(rollouts, scorer, version=VERSION, seed=3, settings=RescoringSettings(**changes))


def sharpen(model: PreTrainedModel, factor: float) -> None:
    embedding: Any = model.get_input_embeddings()
    with torch.no_grad():
        embedding.weight.mul_(factor)


def changed(trajectory: Trajectory, **changes: Any) -> Trajectory:
    return replace(trajectory, rows=(replace(trajectory.rows[0], **changes),))


def test_tokens_with_the_models_own_logprobs_pass(tiny_model: Model, make_trajectory: Make) -> None:
    model = tiny_model()
    found = looked_at(model, sampled(model, make_trajectory, 12), trajectories=5)
    assert found.tokens == 5 * 4
    assert found.mean_gap <= found.largest_gap < 1e-5 and found.far_share == 0.0


def test_retokenised_ids_are_refused_by_name(tiny_model: Model, make_trajectory: Make) -> None:
    model = tiny_model()
    sharpen(model, 40)  # another id is an unlikely id then
    honest = sampled(model, make_trajectory, 3)
    assert looked_at(model, honest).far_share == 0.0
    tokens = honest[1].rows[0].token_ids
    other = changed(honest[1], token_ids=(*tokens[:4], (tokens[4] + 1) % 20, *tokens[5:]))
    with pytest.raises(
        TrainingError, match=r"returns other tokens than it sampled.*12 rescored tokens.*trajectory 't1'"
    ):
        looked_at(model, [honest[0], other, honest[2]])


def test_logprobs_of_other_weights_and_of_a_changed_prompt_are_refused(
    tiny_model: Model, make_trajectory: Make
) -> None:
    model = tiny_model()
    honest = sampled(tiny_model(seed=5), make_trajectory, 4)
    with pytest.raises(TrainingError, match="log-probs of other weights"):
        looked_at(model, honest, mean_gap=1e-3)
    swapped = [changed(each, token_ids=(1, 9, 9, *each.rows[0].token_ids[3:])) for each in honest]
    with pytest.raises(TrainingError, match="returns other tokens than it sampled"):
        looked_at(tiny_model(seed=5), swapped, mean_gap=1e-3)


def test_logprobs_at_an_undeclared_temperature_are_refused(tiny_model: Model, make_trajectory: Make) -> None:
    model = tiny_model()
    sharpen(model, 10)
    with pytest.raises(TrainingError, match="nats on average"):
        looked_at(model, sampled(model, make_trajectory, 4, temperature=0.5))


def test_a_nan_score_counts_as_far_off(make_trajectory: Make) -> None:
    def broken(rows: Sequence[TrainingRow]) -> list[FloatArray]:
        return [np.full(len(row.positions), math.nan, dtype=np.float32) for row in rows]

    with pytest.raises(TrainingError, match="differ by inf nats"):
        rescore([replace(make_trajectory(), model_version=VERSION)], broken, version=VERSION, seed=0)


def test_the_share_of_far_tokens_decides_not_a_single_one(make_trajectory: Make) -> None:
    def scores(rows: Sequence[TrainingRow]) -> list[FloatArray]:
        return [np.array([-1.0 - 1.5 * (row.trajectory_id == "t0")], dtype=np.float32) for row in rows]

    many = [replace(make_trajectory(name=f"t{index}"), model_version=VERSION) for index in range(40)]
    settings = RescoringSettings(trajectories=40, far_share=0.025)
    found = rescore(many, scores, version=VERSION, seed=0, settings=settings)
    assert found == pytest.approx((40, 1.5 / 40, 1.5, 0.025))
    with pytest.raises(TrainingError, match=r"2\.50% of them by more than 1 \(allowed 2\.00%\)"):
        rescore(many, scores, version=VERSION, seed=0, settings=replace(settings, far_share=0.02))


def test_the_sample_depends_on_ids_and_seed_only(make_trajectory: Make) -> None:
    def chosen(trajectories: Sequence[Trajectory], seed: int) -> set[str]:
        seen: set[str] = set()

        def scores(rows: Sequence[TrainingRow]) -> list[FloatArray]:
            seen.update(row.trajectory_id for row in rows)
            return [np.full(len(row.positions), -1.0, dtype=np.float32) for row in rows]

        rescore(trajectories, scores, version=VERSION, seed=seed)
        return seen

    many = [replace(make_trajectory(name=f"t{index}"), model_version=VERSION) for index in range(30)]
    assert chosen(many, 1) == chosen(many[::-1], 1)
    assert len(chosen(many, 1)) == 8
    assert chosen(many, 1) != chosen(many, 2)


def test_scoring_with_other_weights_is_refused(make_trajectory: Make) -> None:
    with pytest.raises(TrainingError, match="sampled with weights 'w0', but would be scored with 'w1'"):
        rescore([replace(make_trajectory(), model_version="w0")], lambda _: [], version=VERSION, seed=0)


def test_trajectories_without_tokens_are_skipped(make_trajectory: Make) -> None:
    found = rescore([replace(make_trajectory(), rows=())], lambda _: [], version=VERSION, seed=0)
    assert found.tokens == 0 and math.isnan(found.mean_gap)


def test_all_invalid_settings_are_reported_together() -> None:
    with pytest.raises(ConfigError) as caught:
        RescoringSettings(0, math.nan, -1.0, 1.0)
    assert len(caught.value.problems) == 4
