"""The merged weights of a model with a LoRA adapter, without changing the model.

Adapters are PEFT's and stay in place. Only plain LoRA is merged (arXiv 2106.09685): W + scale · B A for each
adapted linear layer W. A model with any other PEFT module counts as having no adapter: its tensors are returned
unmerged.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor


def is_quantised(layer: object) -> bool:
    """Whether it is bitsandbytes' linear layer with a weight in 4 bits, or PEFT's adapter on one."""
    kind = type(layer)
    return kind.__name__ == "Linear4bit" and kind.__module__.startswith(("bitsandbytes.", "peft."))


def lora_layers(model: nn.Module) -> dict[str, nn.Module]:
    """The layers with a LoRA adapter, by name in the base model, in the model's order; empty = no adapter.

    Also empty where the model has any PEFT module other than one plain adapter on linear layers.
    """
    if not getattr(model, "peft_config", None):
        return {}
    from peft.tuners.tuners_utils import BaseTunerLayer

    parts: Iterable[tuple[str, Any]] = unwrap(model).named_modules()
    layers: dict[str, Any] = {name: part for name, part in parts if isinstance(part, BaseTunerLayer)}
    return layers if all(_is_plain(layer) for layer in layers.values()) else {}


@torch.no_grad()
def weight_of(layer: Any) -> Tensor:  # Any: torch's linear layer, or PEFT's
    """``(out, in)``: the effective weight of a linear layer, adapter merged; the full tensor also if sharded.

    Without an adapter, the layer's own tensor.
    """
    plain = layer if type(layer) is nn.Linear else layer.get_base_layer()
    base = _dequantised(plain) if is_quantised(plain) else full_tensor(plain.weight.detach())
    if plain is layer:
        return base
    return base + update_of(layer).to(base.dtype)


@torch.no_grad()
def update_of(layer: Any) -> Tensor:  # Any: PEFT's layer
    """``(out, in)``: what the adapter of a layer adds to its weight, in float32."""
    (name,) = layer.active_adapters
    down, up = (full_tensor(factors[name].weight.detach()).float() for factors in (layer.lora_A, layer.lora_B))
    update: Tensor = (up @ down) * layer.scaling[name]
    return update


def merged_state(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """The model's ``state_dict`` with the adapter merged, sorted by name, as full tensors.

    Merges one weight at a time. For a sharded model, every process must consume it.
    """
    layers = lora_layers(model)
    state = (unwrap(model) if layers else model).state_dict()
    names: dict[str, str] = {}
    """By name in the base model."""
    for name in state:
        layer = next((layer for layer in layers if name.startswith(f"{layer}.")), None)
        if layer is None:
            names[name] = name
        elif name.startswith(base := f"{layer}.base_layer."):
            names[f"{layer}.{name.removeprefix(base)}"] = name
    for name in sorted(names):
        layer, _, part = name.rpartition(".")
        is_adapted = part == "weight" and layer in layers
        yield name, weight_of(layers[layer]) if is_adapted else full_tensor(state[names[name]])


def unwrap(model: nn.Module) -> nn.Module:
    """The transformers model inside PEFT's wrapper; any other model unchanged."""
    from peft import PeftModel

    return model.get_base_model() if isinstance(model, PeftModel) else model


def full_tensor(tensor: Tensor) -> Tensor:
    """The tensor itself, or all of a sharded one: then every process must call it, in the same order."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def _dequantised(layer: Any) -> Tensor:  # Any: bitsandbytes' layer
    from bitsandbytes.functional import dequantize_4bit

    weight: Tensor = dequantize_4bit(layer.weight.data, layer.weight.quant_state)
    return weight


def _is_plain(layer: Any) -> bool:  # Any: PEFT's layer, of any kind
    from peft.tuners.lora.layer import Linear

    base = layer.get_base_layer()
    is_linear = type(layer) is Linear and type(base) is nn.Linear
    return (
        (is_linear or (is_quantised(layer) and is_quantised(base)))
        and len(layer.active_adapters) == 1
        and not (layer.merged or layer.disable_adapters or layer.fan_in_fan_out or layer.lora_variant)
        and not any(layer.lora_bias.values())
    )
