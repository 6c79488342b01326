"""LoRA adapters on models in training: putting one on, merging it into the weights, saving it as PEFT does.

The model stays the class of transformers that it is, so whatever trains, samples or saves it needs to know nothing
of adapters, but for what it saves: a version is a whole model, with the adapter merged.
"""

import math
import shutil
import warnings
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from upturn.config import AdapterSettings
from upturn.errors import ModelError, TrainingError
from upturn.models.engine import lora_layers, unwrapped, weight_of

_ALPHA_FACTOR = 2
"""``alpha`` in ranks where it is left out, as most recipes have it: another rank then takes steps of like size."""

INSTALL = "pip install 'upturn[lora]'"
_FILES = ("adapter_config.json", "adapter_model.safetensors")


def adapt(model: PreTrainedModel, settings: AdapterSettings, *, base: str = "") -> None:
    """Puts an adapter on the model, in place: its own weights are frozen, the adapter's alone are trained.

    The same settings give the same adapter in every process; torch's own generator is left as it was. ``base``:
    folder or name of the model, for whoever loads the saved adapter; empty = as transformers knows it. Raises
    ModelError without PEFT, for targets that are no linear layers of the model, and for a rank beyond all of them.
    """
    try:
        from peft import LoraConfig
    except ImportError as exc:
        raise ModelError(f"a LoRA adapter was asked for, and PEFT is not installed: {INSTALL}") from exc
    targets = _targets(model, settings)
    _check_rank(model, settings.rank, targets)
    config: Any = LoraConfig(
        r=settings.rank,
        lora_alpha=_ALPHA_FACTOR * settings.rank if settings.alpha is None else settings.alpha,
        target_modules=targets,
        task_type="CAUSAL_LM",
    )
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # PEFT reads what transformers is about to rename
        model.add_adapter(config)
    config.base_model_name_or_path = base or config.base_model_name_or_path
    model.train(model.training)  # the new parts too
    generator = torch.Generator().manual_seed(settings.seed or 0)
    for layer in lora_layers(model).values():
        _draw(layer, generator)


def merged(model: PreTrainedModel) -> PreTrainedModel:
    """The model with its adapter merged into its weights, as a copy; the model itself where it has none.

    Raises TrainingError for adapters of PEFT's that are more than one plain LoRA.
    """
    if not getattr(model, "peft_config", None):
        return model
    head, layers = model.get_output_embeddings(), lora_layers(model)
    if not layers or any(each is head for each in layers.values()):  # the head's weights may be the embedding's too
        raise TrainingError(
            f"what PEFT has put into this {type(model).__name__} cannot be merged here: only one LoRA adapter on "
            "linear layers below the output layer can, without variants such as DoRA. Merge it with PEFT first"
        )
    found: Any = unwrapped(deepcopy(model))
    layers = lora_layers(found)
    for name, layer in layers.items():
        plain: Any = layer.base_layer
        plain.weight = nn.Parameter(weight_of(layer))
        found.set_submodule(name, plain)
    del found.peft_config
    found._hf_peft_config_loaded = False
    whole: PreTrainedModel = found.requires_grad_(True)
    return whole


def save_adapter(model: Any, target: Path) -> None:  # Any: of transformers, or PEFT's own class around it
    """Writes the adapter as PEFT does, whole or not at all. What is there already stays."""
    if target.is_dir():
        return
    partial = target.with_name(f".{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    with warnings.catch_warnings():
        # where the base is an adapter itself, PEFT finds no model there to compare the vocabulary with
        warnings.filterwarnings("ignore", "Could not find a config file", UserWarning)
        model.save_pretrained(partial)
    missing = [name for name in _FILES if not (partial / name).is_file()]
    if missing:
        raise TrainingError(
            f"PEFT saved no {missing[0]!r} in {str(partial)!r}; one adapter named 'default' is needed"
        )
    partial.rename(target)


def _targets(model: PreTrainedModel, settings: AdapterSettings) -> list[str]:
    """Last parts of the names of the layers to adapt."""
    head = model.get_output_embeddings()
    known = {
        name.rpartition(".")[2]
        for name, part in model.named_modules()
        if type(part) is nn.Linear and part is not head
    }
    foreign = [name for name in settings.targets if name not in known]
    if foreign:
        raise ModelError(
            f"a LoRA adapter's targets name {foreign[0]!r}, which is no linear layer that {type(model).__name__} "
            f"can have one on; it has: {', '.join(sorted(known))}; leave targets empty for all of them"
        )
    return sorted(settings.targets or known)


def _check_rank(model: PreTrainedModel, rank: int, targets: Sequence[str]) -> None:
    """A matrix cannot have a higher rank than its shorter side, so what is above that only takes memory."""
    own = (part for name, part in model.named_modules() if name.rpartition(".")[2] in targets)
    longest = max(min(part.in_features, part.out_features) for part in own if isinstance(part, nn.Linear))
    if rank > longest:
        raise ModelError(
            f"a LoRA adapter of rank={rank!r} is more than {type(model).__name__} has room for: its adapted layers "
            f"have a rank of at most {longest}; lower lora.rank, or train the whole model without an adapter"
        )


def _draw(layer: Any, generator: torch.Generator) -> None:  # Any: a layer of PEFT's
    """A uniform in ±1/√in, which is what PEFT's own Kaiming draw (a = √5) comes to; B is 0 already."""
    (name,) = layer.active_adapters
    weight = layer.lora_A[name].weight
    bound = 1 / math.sqrt(weight.shape[1])
    with torch.no_grad():
        weight.copy_(torch.empty(weight.shape).uniform_(-bound, bound, generator=generator))
