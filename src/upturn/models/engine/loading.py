"""Loads a model's folder: a causal language model, or a vision-language model of which the text part is used."""

import json
from pathlib import Path
from typing import Any

import transformers
from torch import nn
from transformers import (
    CONFIG_MAPPING,
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    PreTrainedModel,
)

from upturn.models.engine.head import backbone_of


class UnsupportedModelError(ValueError):
    """A model of a kind that cannot be loaded; the message has the cure."""


def auto_class(folder: Path) -> Any:
    """The class of transformers that loads the model in a folder.

    Raises UnsupportedModelError for models that are neither causal language models nor vision-language models, and
    for architectures that transformers does not have; ValueError for a damaged ``config.json``.
    """
    try:
        settings = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except ValueError as exc:
        raise ValueError(f"its config.json is not valid JSON: {exc}") from exc
    if not isinstance(settings, dict):
        raise ValueError(f"its config.json must hold an object, got {type(settings).__name__}")
    kind = settings.get("model_type")
    if kind not in CONFIG_MAPPING:
        note = "its own code is never run, and " if "auto_map" in settings else ""
        raise UnsupportedModelError(
            f"{note}its model_type {kind!r} is not in transformers {transformers.__version__}; update "
            "transformers, or use a model of another architecture"
        )
    # without trust_remote_code, a folder with code would prompt on the terminal
    config: Any = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    classes: tuple[Any, ...] = (AutoModelForCausalLM, AutoModelForImageTextToText)
    loader = next((auto for auto in classes if type(config) in auto._model_mapping), None)
    if loader is None:
        raise UnsupportedModelError(
            f"type {config.model_type!r} is neither a causal language model nor a vision-language model in "
            f"transformers {transformers.__version__}; use the text model that it contains, saved separately"
        )
    return loader


def is_composite(model: PreTrainedModel) -> bool:
    """Whether the model has parts other than its language model, such as a vision tower."""
    return model.config.get_text_config(decoder=True) is not model.config


def language_part(model: PreTrainedModel) -> nn.Module:
    """The model itself; of a vision-language model the backbone of its language model."""
    part: nn.Module = backbone_of(model) if is_composite(model) else model
    return part


def freeze_other_parts(model: PreTrainedModel) -> PreTrainedModel:
    """The model; of a vision-language model only the language model can be trained afterwards."""
    if is_composite(model):
        model.requires_grad_(False)
        backbone_of(model).requires_grad_(True)
        head: Any = model.get_output_embeddings()
        if head is not None:
            head.requires_grad_(True)
    return model
