"""Trained versions as folders that ``AutoModelForCausalLM.from_pretrained`` loads."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, PreTrainedModel

from upturn.errors import ModelError, TrainingError
from upturn.training.checkpoint import sync
from upturn.training.weights import digest, weight_tensors, weights_hash

Stored = Literal["float32", "bfloat16"]
MARKER = "upturn.json"
"""File in a version's folder that says what lies there."""
_DTYPES: Mapping[Stored, torch.dtype] = {"float32": torch.float32, "bfloat16": torch.bfloat16}
_WEIGHT_FILES = (
    "*.safetensors",
    "*.safetensors.index.json",
    "*.bin",
    "config.json",
    "generation_config.json",
    MARKER,
)


def save_version(
    model: PreTrainedModel, folder: Path, *, stored: Stored = "float32", companions: Path | None = None
) -> str:
    """Writes the model as a new folder, atomically, and returns the hash of the weights as they will be loaded.

    ``bfloat16`` halves the files and rounds the weights; what loads is again float32, so evaluate what was loaded.
    ``companions``: a folder whose other files (tokenizer and the like) go along; None = none. Saving the same
    weights again is a no-op; raises TrainingError when ``folder`` holds anything else.
    """
    tensors = {name: tensor.to(_DTYPES[stored]) for name, tensor in weight_tensors(model).items()}
    weights = digest({name: tensor.float() for name, tensor in tensors.items()})
    if folder.exists():
        if _marked_hash(folder) == weights:
            return weights
        raise TrainingError(f"folder {str(folder)!r} exists and holds something else; name a new folder")
    partial = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    _write_model(model, partial, tensors)
    if companions is not None:
        _copy_companions(companions, partial)
    (partial / MARKER).write_text(json.dumps({"weights_hash": weights, "stored": stored}) + "\n")
    for file in partial.iterdir():
        sync(file)
    partial.rename(folder)
    sync(folder.parent)
    return weights


def load_version(folder: Path) -> PreTrainedModel:
    """The model of a folder that ``save_version`` wrote, in float32.

    Raises ModelError when files are missing or damaged, or the weights are not those that were saved.
    """
    expected = _marked_hash(folder)
    if expected is None:
        raise ModelError(
            f"{str(folder / MARKER)!r} is missing or damaged, so the folder's weights cannot be checked; "
            "train again, or restore the folder"
        )
    try:
        model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32, local_files_only=True
        )
    except Exception as exc:  # a damaged folder fails in the libraries below in many ways
        raise ModelError(f"cannot load {str(folder)!r}: {exc}; train again, or restore the folder") from exc
    found = weights_hash(model)
    if found != expected:
        raise ModelError(
            f"the weights in {str(folder)!r} have hash {found}, saved was {expected}; train again, or restore it"
        )
    return model


def _write_model(model: PreTrainedModel, folder: Path, tensors: Mapping[str, Tensor]) -> None:
    """Tied tensors are written once; transformers ties them again when it loads."""
    writer: Any = model  # save_pretrained is typed for a subset of what it takes
    writer.save_pretrained(folder, state_dict=dict(tensors))


def _copy_companions(source: Path, target: Path) -> None:
    for file in sorted(source.iterdir()):
        if file.is_file() and not any(file.match(pattern) for pattern in _WEIGHT_FILES):
            shutil.copyfile(file, target / file.name)


def _marked_hash(folder: Path) -> str | None:
    """What the folder says of itself; None = nothing readable."""
    try:
        marked = json.loads((folder / MARKER).read_text())
        return str(marked["weights_hash"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
