"""What a model with a LoRA adapter computes with: the weights that it would have with the adapter merged into it.

Adapters are PEFT's and stay where they are. Only plain ones are read so (arXiv 2106.09685): of each linear layer W
that has one, W + scale · B A. A model with anything else of PEFT's counts as one without: whoever asks then sees
the tensors as they are.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor


def lora_layers(model: nn.Module) -> dict[str, nn.Module]:
    """The layers that have a LoRA adapter, by their names without it, in the model's order; empty = it has none.

    Empty too where PEFT has put anything into the model that is not one plain adapter on linear layers.
    """
    if not getattr(model, "peft_config", None):
        return {}
    from peft.tuners.tuners_utils import BaseTunerLayer

    parts = dict(unwrapped(model).named_modules())
    names = [name for name, part in parts.items() if isinstance(part, BaseTunerLayer)]
    found = {name: parts[name] for name in names}
    return found if all(_is_plain(each) for each in found.values()) else {}


@torch.no_grad()
def weight_of(layer: Any) -> Tensor:  # Any: torch's linear layer, or PEFT's
    """``(out, in)``: what a linear layer multiplies with, the adapter's part included; whole, of shards too.

    Without an adapter the layer's own tensor.
    """
    own = whole_tensor(layer.weight.detach())
    if type(layer) is nn.Linear:
        return own
    (name,) = layer.active_adapters
    down, up = (whole_tensor(each[name].weight.detach()) for each in (layer.lora_A, layer.lora_B))
    added: Tensor = (up @ down) * layer.scaling[name]
    return own + added.to(own.dtype)


def merged_state(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """The model's ``state_dict`` in the order of the names, as it is with the adapter merged; whole tensors.

    One merged weight at a time. Of a model in shards, all processes must go through it.
    """
    layers = lora_layers(model)
    own = (unwrapped(model) if layers else model).state_dict()
    names: dict[str, str] = {}
    for name in own:
        layer, rest = _split(name, layers)
        if layer is None:
            names[name] = name
        elif rest.startswith("base_layer."):
            names[f"{layer}.{rest.removeprefix('base_layer.')}"] = name
    for name in sorted(names):
        layer, rest = _split(name, layers)
        if layer is not None and rest == "weight":
            yield name, weight_of(layers[layer])
        else:
            yield name, whole_tensor(own[names[name]])


def unwrapped(model: nn.Module) -> nn.Module:
    """The model of transformers that PEFT's own class wraps; another model as it is."""
    from peft import PeftModel

    return model.get_base_model() if isinstance(model, PeftModel) else model


def whole_tensor(tensor: Tensor) -> Tensor:
    """The tensor itself, or all of a sharded one: then every process must ask, in the same order."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


class _Place(NamedTuple):
    layer: str | None
    """One with an adapter; None = none such."""
    rest: str
    """The tensor's name there."""


def _split(name: str, layers: dict[str, nn.Module]) -> _Place:
    """Where a tensor of that name belongs."""
    parts = name.split(".")
    for count in range(len(parts) - 1, 0, -1):
        layer = ".".join(parts[:count])
        if layer in layers:
            return _Place(layer, ".".join(parts[count:]))
    return _Place(None, name)


def _is_plain(layer: Any) -> bool:  # Any: a layer of PEFT's, of any kind
    from peft.tuners.lora.layer import Linear

    return (
        type(layer) is Linear
        and type(layer.get_base_layer()) is nn.Linear
        and len(layer.active_adapters) == 1
        and not (layer.merged or layer.disable_adapters or layer.fan_in_fan_out or layer.lora_variant)
        and not any(layer.lora_bias.values())
    )
