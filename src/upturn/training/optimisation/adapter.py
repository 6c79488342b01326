"""LoRA adapters on models in training: adding, merging into the weights, saving as PEFT does.

The model keeps its transformers class, so training, sampling and saving are the same as without an adapter, except
that a saved version is a full model with the adapter merged.
"""

import math
import re
import shutil
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from upturn.config import AdapterSettings
from upturn.errors import ModelError, TrainingError
from upturn.models.engine import (
    full_tensor,
    is_composite,
    is_quantised,
    language_part,
    lora_layers,
    unwrap,
    update_of,
    weight_of,
)

_ALPHA_FACTOR = 2
"""Default ``alpha`` in multiples of the rank, as in most recipes: steps are then of similar size for any rank."""

INSTALL = "pip install 'upturn[lora]'"
_FILES = ("adapter_config.json", "adapter_model.safetensors")


def add_adapter(model: PreTrainedModel, settings: AdapterSettings, *, base: str = "") -> None:
    """Adds an adapter to the model in place: the base weights are frozen, only the adapter is trained.

    The same settings give the same adapter in every process; torch's global generator is unchanged. ``base``:
    folder or name of the model, stored with the saved adapter; empty = transformers' name. Raises ModelError
    without PEFT, for targets that are not linear layers of the model, and for a rank above that of every target.
    """
    try:
        from peft import LoraConfig
    except ImportError as exc:
        raise ModelError(f"a LoRA adapter needs PEFT, which is not installed: {INSTALL}") from exc
    targets = _targets(model, settings)
    _check_rank(model, settings.rank, targets)
    config: Any = LoraConfig(
        r=settings.rank,
        lora_alpha=_ALPHA_FACTOR * settings.rank if settings.alpha is None else settings.alpha,
        target_modules=targets,
        exclude_modules=_other_parts(model),
        task_type="CAUSAL_LM",
    )
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # PEFT uses a name that transformers deprecates
        model.add_adapter(config)
    config.base_model_name_or_path = base or config.base_model_name_or_path
    model.train(model.training)  # the new parts too
    generator = torch.Generator().manual_seed(settings.seed or 0)
    for layer in lora_layers(model).values():
        _initialise(layer, generator)


def merge_adapter(model: PreTrainedModel, base: PreTrainedModel | None = None) -> PreTrainedModel:
    """The model with its adapter merged into its weights, as a copy; the model itself where it has none.

    ``base``: the same model without adapter in float32, whose weights are changed in place and returned instead;
    for a model in bfloat16 or 4 bits, whose own weights would round the merged ones. Raises TrainingError for PEFT
    adapters other than one plain LoRA.
    """
    if not getattr(model, "peft_config", None):
        return model
    head, layers = model.get_output_embeddings(), lora_layers(model)
    # the output layer's weights may be the embedding's too
    if not layers or any(layer is head for layer in layers.values()):
        raise TrainingError(
            f"the PEFT modules of this {type(model).__name__} cannot be merged here: only one LoRA adapter on "
            "linear layers below the output layer can, without variants such as DoRA. Merge it with PEFT first"
        )
    if base is not None:
        return _merge_into(base, layers)
    quantised = next((name for name, layer in layers.items() if is_quantised(layer)), None)
    if quantised is not None:
        raise TrainingError(
            f"the weights of {quantised!r} are in 4 bits, which cannot hold a merged adapter: merge it into the "
            "model's float32 weights (PolicyWorker.whole_model)"
        )
    result: Any = unwrap(deepcopy(model))
    layers = lora_layers(result)
    for name, layer in layers.items():
        plain: Any = layer.base_layer
        plain.weight = nn.Parameter(weight_of(layer))
        result.set_submodule(name, plain)
    del result.peft_config
    result._hf_peft_config_loaded = False
    trainable: PreTrainedModel = result.requires_grad_(True)
    return trainable


@torch.no_grad()
def _merge_into(base: PreTrainedModel, layers: Mapping[str, Any]) -> PreTrainedModel:
    for name, layer in layers.items():
        linear: Any = base.get_submodule(name)
        linear.weight.add_(update_of(layer).to(linear.weight))
    return base


@contextmanager
def without_adapter(model: PreTrainedModel) -> Iterator[None]:
    """Within the context the model computes as before it got its adapter. Gradients are not for use inside."""
    layers: list[Any] = list(lora_layers(model).values())
    for layer in layers:
        layer._disable_adapters = True  # enable_adapters() would also change what requires a gradient
    try:
        yield
    finally:
        for layer in layers:
            layer._disable_adapters = False


def is_untrained(model: PreTrainedModel) -> bool:
    """Whether the model has an adapter that changes nothing yet: every B is 0."""
    layers: list[Any] = list(lora_layers(model).values())
    factors = [layer.lora_B[name].weight for layer in layers for name in layer.active_adapters]
    return bool(factors) and not any(full_tensor(factor).any() for factor in factors)


def save_adapter(model: Any, target: Path) -> None:  # Any: transformers' class or PEFT's wrapper
    """Writes the adapter as PEFT does, atomically. An existing folder is kept."""
    if target.is_dir():
        return
    partial = target.with_name(f".{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    with warnings.catch_warnings():
        # PEFT cannot compare vocabularies where the base is itself an adapter
        warnings.filterwarnings("ignore", "Could not find a config file", UserWarning)
        model.save_pretrained(partial)
    missing = [name for name in _FILES if not (partial / name).is_file()]
    if missing:
        raise TrainingError(
            f"PEFT saved no {missing[0]!r} in {str(partial)!r}; one adapter named 'default' is needed"
        )
    partial.rename(target)


def _targets(model: PreTrainedModel, settings: AdapterSettings) -> list[str]:
    """The last name components of the layers to adapt."""
    head = model.get_output_embeddings()
    available = {
        name.rpartition(".")[2]
        for name, part in language_part(model).named_modules()
        if (type(part) is nn.Linear or is_quantised(part)) and part is not head
    }
    unknown = [name for name in settings.targets if name not in available]
    if unknown:
        raise ModelError(
            f"LoRA target {unknown[0]!r} is not an adaptable linear layer of {type(model).__name__}, which has: "
            f"{', '.join(sorted(available))}; leave targets empty for all of them"
        )
    return sorted(settings.targets or available)


def _other_parts(model: PreTrainedModel) -> str | None:
    """A pattern of the names outside a vision-language model's language model; None for other models."""
    if not is_composite(model):
        return None
    used = language_part(model)
    name = next(name for name, part in model.named_modules() if part is used)
    return rf"(?!{re.escape(name)}\.).*"


def _check_rank(model: PreTrainedModel, rank: int, targets: Sequence[str]) -> None:
    """Refuses a rank above the shorter side of every target: it would only cost memory."""
    parts = language_part(model).named_modules()
    targeted = (part for name, part in parts if name.rpartition(".")[2] in targets)
    longest = max(min(part.in_features, part.out_features) for part in targeted if isinstance(part, nn.Linear))
    if rank > longest:
        raise ModelError(
            f"LoRA rank={rank!r} is too large for {type(model).__name__}: its adapted layers "
            f"have a rank of at most {longest}; lower lora.rank, or train the full model without an adapter"
        )


def _initialise(layer: Any, generator: torch.Generator) -> None:  # Any: PEFT's layer
    """Draws A uniformly in ±1/√in, equal to PEFT's Kaiming initialisation (a = √5); B is 0 already."""
    (name,) = layer.active_adapters
    weight = layer.lora_A[name].weight
    bound = 1 / math.sqrt(weight.shape[1])
    with torch.no_grad():
        weight.copy_(torch.empty(weight.shape).uniform_(-bound, bound, generator=generator))
