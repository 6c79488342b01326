"""Folders of reward models: scores survive them, transformers reads them, damage is noticed."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForSequenceClassification, PreTrainedModel

from upturn.config import AdapterSettings
from upturn.errors import ModelError, TrainingError
from upturn.records import Trajectory
from upturn.training.optimisation import add_adapter, value_model
from upturn.training.reward_models import (
    RewardModel,
    RewardModelDescription,
    load_reward_model,
    read_description,
    save_reward_model,
)
from upturn.training.runs import load_version

Model = Callable[..., PreTrainedModel]
Make = Callable[..., Trajectory]
OUTCOME = RewardModelDescription("outcome", 0.3, None, "toy@1", tenants=("default",))
PROCESS = RewardModelDescription("process", 0.0, "product", "toy@1", tenants=("default",))


def _with_head(model: PreTrainedModel, seed: int = 1) -> PreTrainedModel:
    """A scalar model whose head is not 0, and has a bias."""
    scalar = value_model(model)
    head = scalar.get_output_embeddings()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        head.weight.normal_(0, 1, generator=generator)
        head.bias.fill_(0.7)
    return scalar


def _trajectories(make: Make) -> list[Trajectory]:
    return [
        make((1, 5, 2, 7, 9, 3, 11), ((0, 2, 3), (1, 4, 6)), name="two"),
        make((4, 4, 8), ((0, 1, 3),), name="one"),
    ]


@pytest.mark.parametrize("description", [OUTCOME, PROCESS])
def test_a_saved_model_gives_the_same_scores(
    tiny_model: Model, make_trajectory: Make, tmp_path: Path, description: RewardModelDescription
) -> None:
    model, trajectories = _with_head(tiny_model()), _trajectories(make_trajectory)
    before = RewardModel(model, description).scores(trajectories)
    stored = save_reward_model(model, tmp_path / "rm", description)
    after = load_reward_model(tmp_path / "rm").scores(trajectories)
    assert after == pytest.approx(before, abs=1e-6)
    assert len({score for score in before if score is not None}) == 2
    assert stored == read_description(tmp_path / "rm")
    assert stored.description.offset == pytest.approx(description.offset - 0.7, abs=1e-6)


def test_scores_are_those_of_plain_transformers(tiny_model: Model, make_trajectory: Make, tmp_path: Path) -> None:
    """Read by their sequence classifier, at the last written token and not at the end of the row."""
    stored = save_reward_model(_with_head(tiny_model()), tmp_path / "rm", OUTCOME)
    classifier = AutoModelForSequenceClassification.from_pretrained(tmp_path / "rm")
    scores = load_reward_model(tmp_path / "rm").scores(_trajectories(make_trajectory))
    for score, tokens in zip(scores, ([1, 5, 2, 7, 9, 3], [4, 4, 8]), strict=True):
        with torch.no_grad():
            output = classifier(torch.tensor([tokens])).logits[0, 0]
        assert score == pytest.approx(float(torch.sigmoid(output - stored.description.offset)), abs=1e-6)


def test_a_process_model_multiplies_the_probabilities_of_its_turns(
    tiny_model: Model, make_trajectory: Make
) -> None:
    model = _with_head(tiny_model())
    head = model.get_output_embeddings()
    with torch.no_grad():
        hidden = model.get_decoder()(input_ids=torch.tensor([[1, 5, 2, 7, 9, 3]])).last_hidden_state[0]
        outputs = torch.sigmoid(head(hidden)[:, 0])
    (score, _) = RewardModel(model, PROCESS).scores(_trajectories(make_trajectory))
    assert score == pytest.approx(float(outputs[2] * outputs[5]), abs=1e-6)  # the last tokens of both turns


def test_an_adapter_is_merged_into_the_folder(tiny_model: Model, make_trajectory: Make, tmp_path: Path) -> None:
    pytest.importorskip("peft")
    plain = tiny_model()
    add_adapter(plain, AdapterSettings(rank=2, seed=0))
    model = _with_head(plain)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.fill_(0.05)
    trajectories = _trajectories(make_trajectory)
    before = RewardModel(model, OUTCOME).scores(trajectories)
    save_reward_model(model, tmp_path / "rm", OUTCOME)
    assert load_reward_model(tmp_path / "rm").scores(trajectories) == pytest.approx(before, abs=1e-6)


def test_saving_the_same_again_changes_nothing_and_another_model_is_refused(
    tiny_model: Model, tmp_path: Path
) -> None:
    model = _with_head(tiny_model())
    first = save_reward_model(model, tmp_path / "rm", OUTCOME)
    written = (tmp_path / "rm" / "model.safetensors").stat().st_mtime_ns
    assert save_reward_model(model, tmp_path / "rm", OUTCOME) == first
    assert (tmp_path / "rm" / "model.safetensors").stat().st_mtime_ns == written
    with pytest.raises(TrainingError, match="exists and holds something else"):
        save_reward_model(model, tmp_path / "rm", PROCESS)
    other = save_reward_model(model, tmp_path / "other", PROCESS)
    assert other.weights_hash == first.weights_hash
    assert other.id != first.id  # the description is part of what judges
    assert not list(tmp_path.glob(".*partial"))


def test_a_folder_that_is_no_reward_model_or_was_changed_is_refused(tiny_model: Model, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"'.*nothing' is not the folder of a reward model"):
        read_description(tmp_path / "nothing")
    folder = tmp_path / "rm"
    save_reward_model(_with_head(tiny_model()), folder, OUTCOME)
    with pytest.raises(ModelError):
        load_version(folder)  # nor is a reward model a version of an agent
    marker = json.loads((folder / "upturn.json").read_text())
    (folder / "upturn.json").write_text(json.dumps({**marker, "weights_hash": "0" * 32}))
    with pytest.raises(ModelError, match="have hash"):
        load_reward_model(folder)


def test_what_the_model_cannot_read_is_missing(tiny_model: Model, make_trajectory: Make) -> None:
    """No written tokens, more context than the model has (32), a token that it does not have (it has 20)."""
    model = RewardModel(_with_head(tiny_model()), OUTCOME)
    unread = make_trajectory((1, 2, 3), ((0, 1, 2),), name="unread")
    trajectories = [
        make_trajectory((1, 5, 2, 7)),
        Trajectory("none", "task", "toy@1", (), unread.final_observation, "finished", "sampled"),
        make_trajectory([1] * 34, ((0, 1, 33),), name="long"),
        make_trajectory((1, 5, 25, 7), name="foreign"),
    ]
    scores = model.scores(trajectories)
    assert scores[0] is not None
    assert scores[1:] == [None, None, None]
    alone = model.scores(trajectories[:1])
    assert alone == pytest.approx(scores[:1], abs=1e-6)
    with torch.no_grad():
        model.model.get_output_embeddings().weight.fill_(torch.nan)
    assert model.scores(trajectories[:1]) == [None]
