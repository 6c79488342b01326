"""Folders of reward models: what ``AutoModelForSequenceClassification`` of transformers reads, and a description.

The output layer is written as ``score.weight`` with one label and without a bias, as transformers has it; the bias
is part of the description's offset.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import nn
from transformers import AutoModelForCausalLM, PreTrainedModel
from transformers.models.auto.modeling_auto import MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES
from transformers.utils import logging as transformers_logging

from upturn.errors import ModelError, TrainingError
from upturn.models.engine import weights_hash
from upturn.records import fields_json
from upturn.training.distributed import world_of
from upturn.training.optimisation import merge_adapter
from upturn.training.reward_models.description import RewardModelDescription, StoredDescription, read_description
from upturn.training.reward_models.scoring import RewardModel
from upturn.training.runs import no_progress_bars, publish_folder

_HEAD = "score.weight"
_WEIGHTS = "model.safetensors"


def save_reward_model(
    model: PreTrainedModel, folder: Path, description: RewardModelDescription, *, companions: Path | None = None
) -> StoredDescription:
    """Writes a model with a scalar output layer as a new folder, atomically; returns what the folder says.

    An adapter is merged into the written weights. The bias of the output layer moves into the offset.
    ``companions``: a folder whose other files (such as the tokenizer) are copied; None = no files. Saving the same
    model again is a no-op; raises TrainingError when ``folder`` has other content, for a sharded model, and for an
    architecture without a sequence classifier in transformers.
    """
    if world_of(model) is not None:
        raise TrainingError("the reward model is sharded, and each process has its own shard only: train it in one")
    classifier = MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES.get(str(model.config.model_type))
    if classifier is None:
        raise TrainingError(
            f"transformers has no sequence classifier for {type(model.config).__name__}, so a reward model on this "
            "architecture could not be loaded again; train one on a model that has it"
        )
    whole = merge_adapter(model)
    head: Any = whole.get_output_embeddings()
    bias = float(head.bias.detach())
    description = replace(description, offset=description.offset - bias)

    def write(partial: Path) -> None:
        replaced = {id(parameter) for parameter in head.parameters()}
        state = whole.state_dict(keep_vars=True).items()
        tensors = {name: tensor.detach().contiguous() for name, tensor in state if id(tensor) not in replaced}
        tensors[_HEAD] = head.weight.detach().contiguous()
        safetensors.torch.save_file(tensors, partial / _WEIGHTS, metadata={"format": "pt"})
        config: Any = type(whole.config).from_dict(whole.config.to_dict())
        config.num_labels = 1
        config.architectures = [classifier]
        config.save_pretrained(partial)
        if whole.generation_config is not None:
            whole.generation_config.save_pretrained(partial)  # has the tokens that end a turn

    marker = {"stored": "float32", "reward_model": json.loads(fields_json(description))}
    saved = publish_folder(
        folder, write, identity=lambda path: weights_hash(_load(path)), marker=marker, companions=companions
    )
    return StoredDescription(description, saved)


def load_reward_model(folder: Path, *, device: str = "cpu") -> RewardModel:
    """Returns the reward model of a folder, in float32.

    Raises ModelError when files are missing or damaged, or the weights are not the saved ones.
    """
    stored = read_description(folder)
    model = _load(folder)
    actual = weights_hash(model)
    if actual != stored.weights_hash:
        raise ModelError(
            f"the weights in {str(folder)!r} have hash {actual}, saved was {stored.weights_hash}; train again, or "
            "restore it"
        )
    placed: Any = model  # type checkers cannot follow the decorator of ``to``
    return RewardModel(placed.to(device), stored.description)


def _load(folder: Path) -> PreTrainedModel:
    """The causal model of the folder with its scalar output layer."""
    try:
        with safetensors.safe_open(folder / _WEIGHTS, framework="pt") as file:
            weight = file.get_tensor(_HEAD)
        with no_progress_bars(), _no_load_report():
            # tied, so that no output layer over the vocabulary is made only to be replaced
            loaded: Any = AutoModelForCausalLM.from_pretrained(
                folder,
                dtype=torch.float32,
                local_files_only=True,
                trust_remote_code=False,
                tie_word_embeddings=True,
                output_loading_info=True,
            )
        model, report = loaded
        if missing := sorted(report["missing_keys"]):
            raise ValueError(f"{len(missing)} weights are missing, such as {missing[0]}")
    except Exception as exc:  # a damaged folder raises many kinds of errors in the libraries
        raise ModelError(f"cannot load {str(folder)!r}: {exc}; train again, or restore the folder") from exc
    head = nn.utils.skip_init(nn.Linear, weight.shape[1], 1, dtype=torch.float32)
    with torch.no_grad():
        head.weight.copy_(weight)
        head.bias.zero_()
    model.set_output_embeddings(head)
    model.config.tie_word_embeddings = False
    restored: PreTrainedModel = model.eval()
    return restored


@contextmanager
def _no_load_report() -> Iterator[None]:
    """Hides transformers' report of the output layer, which a causal model does not expect."""
    verbosity = transformers_logging.get_verbosity()
    transformers_logging.set_verbosity_error()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(verbosity)
