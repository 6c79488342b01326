"""Our own forward pass of Llama-family decoders: RMSNorm, rotary positions, grouped queries, gated MLP.

Fewer and larger operations than the model's modules: one product for queries, keys and values, and rotation as a
product of complex numbers, for which the entries of each query and key head are reordered so that rotated pairs are
adjacent; that does not change their scalar products. In float32 also one product for gate and up, and norm weights
folded into the products; these weights are copies, with a LoRA adapter merged into them. In bfloat16 a folded or
merged weight would be rounded again, so all weights but those of queries, keys and values are the model's own, as
embedding and output layer always are.
Letters: N tokens, d model width, H query heads, K key-value heads, D head size.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel

from upturn.models.engine.adapter import lora_layers, weight_of

FAMILIES = ("llama", "mistral", "qwen2", "qwen3")
"""Model types with this architecture; each model is still compared with its own forward pass."""
_TYPES = (torch.float32, torch.bfloat16)
STATIC_ROTATION = ("default", "linear", "llama3", "yarn")
"""Rotary types whose angles do not depend on the length of the sequence."""

Attend: TypeAlias = Callable[[int, Tensor, Tensor], Tensor]
"""``(layer, queries (N, H, D), keys and values (N, 2K, D))`` to the attention's output ``(N, H·D)``."""


class Shape(NamedTuple):
    """Dimensions of the attention."""

    layers: int
    heads: int
    groups: int
    """Key-value heads."""
    size: int
    """Head size."""


class _Layer(NamedTuple):
    input_norm: Tensor | None
    """None = folded into ``qkv``."""
    qkv: Tensor
    qkv_bias: Tensor | None
    head_norm: Tensor | None
    """``(H + K, D)``: norm weights of each query and key head; None = no norm."""
    out: Tensor
    out_bias: Tensor | None
    output_norm: Tensor | None
    """None = folded into ``gate`` and ``up``."""
    gate: Tensor
    gate_bias: Tensor | None
    up: Tensor | None
    """None = ``gate`` has the weights of both, one after the other."""
    up_bias: Tensor | None
    down: Tensor
    down_bias: Tensor | None


class _Weights(NamedTuple):
    embedding: Tensor
    layers: tuple[_Layer, ...]
    norm: Tensor
    head: Tensor
    head_bias: Tensor | None
    rotations: Tensor
    """``(positions, D / 2)`` complex: the rotation of each pair at each position."""


def unsupported_reason(model: PreTrainedModel) -> str | None:
    """Why this module cannot compute the model; None = it can.

    Checks structure only; ``verification`` checks logits.
    """
    config: Any = model.config  # attributes differ between model families
    if config.model_type not in FAMILIES:
        return f"its type is {config.model_type!r}, not one of {', '.join(FAMILIES)}"
    if config.hidden_act != "silu":
        return f"its activation is {config.hidden_act!r}, not 'silu'"
    if model.dtype not in _TYPES:
        return f"its weights are {model.dtype}, not {' or '.join(map(str, _TYPES))}"
    if model.dtype != torch.float32 and lora_layers(model):
        return f"its adapter would be rounded off by merging it into weights in {model.dtype}"
    backbone: Any = model.get_decoder()
    kind = backbone.rotary_emb.rope_type
    if kind not in STATIC_ROTATION:
        return f"its rotary type is {kind!r}, not one of {', '.join(STATIC_ROTATION)}"
    linears = [linear for layer in backbone.layers for linear in _linears(layer)]
    adapted = {id(layer) for layer in lora_layers(model).values()}
    plain = [linear for linear in linears if id(linear) not in adapted]
    others = {
        type(part).__name__ for part in (*plain, model.get_output_embeddings()) if type(part) is not nn.Linear
    }
    if others:
        return f"it has {', '.join(sorted(others))} in place of Linear"
    return None


def layer_windows(model: PreTrainedModel) -> tuple[int | None, ...]:
    """The tokens that each layer attends to, counted back from the query itself; None = all earlier ones."""
    config: Any = model.config
    window: int | None = getattr(config, "sliding_window", None)
    kinds = getattr(config, "layer_types", None) or ["sliding_attention"] * config.num_hidden_layers
    return tuple(window if kind == "sliding_attention" else None for kind in kinds)


def _linears(layer: Any) -> list[object]:  # Any: a module of transformers
    attention, mlp = layer.self_attn, layer.mlp
    projections = [attention.q_proj, attention.k_proj, attention.v_proj, attention.o_proj]
    return [*projections, mlp.gate_proj, mlp.up_proj, mlp.down_proj]


class Decoder:
    """A model's weights at the last ``refresh``."""

    def __init__(self, model: PreTrainedModel, positions: int) -> None:
        """``positions``: the longest context. ``unsupported_reason`` must be None for the model."""
        self._model = model
        self._backbone: Any = model.get_decoder()
        attention = self._backbone.layers[0].self_attn
        size = int(attention.head_dim)
        self.shape = Shape(
            len(self._backbone.layers),
            attention.q_proj.out_features // size,
            attention.k_proj.out_features // size,
            size,
        )
        self._positions = positions
        self._epsilon = float(self._backbone.norm.variance_epsilon)
        self._weights = self._copy_weights()

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return self._weights.embedding.device

    @property
    def like(self) -> Tensor:
        """One of its tensors, with the type and device for caches."""
        return self._weights.norm

    @torch.no_grad()
    def refresh(self) -> None:
        """Copies the model's current weights."""
        self._weights = self._copy_weights()

    def hidden(self, ids_N: Tensor, positions_N: Tensor, attend: Attend) -> Tensor:
        """``(N, d)``: after the last layer, not normed. Rows interact in ``attend`` only."""
        weights, (_, heads, groups, size) = self._weights, self.shape
        rotated = (heads + groups) * size
        rotations_N = weights.rotations.index_select(0, positions_N)[:, None]
        state = weights.embedding.index_select(0, ids_N)
        count, width = state.shape
        for index, layer in enumerate(weights.layers):
            normed = functional.rms_norm(state, (width,), layer.input_norm, self._epsilon)
            qkv = functional.linear(normed, layer.qkv, layer.qkv_bias)
            pairs = qkv[:, :rotated].view(count, heads + groups, size)
            if layer.head_norm is not None:
                pairs.copy_(functional.rms_norm(pairs, (size,), None, self._epsilon).mul_(layer.head_norm))
            _rotate_(pairs.view(count, heads + groups, size // 2, 2), rotations_N)
            query = qkv[:, : heads * size].view(count, heads, size)
            attended = attend(index, query, qkv[:, heads * size :].view(count, 2 * groups, size))
            state = _add_linear(state, attended, layer.out, layer.out_bias)
            normed = functional.rms_norm(state, (width,), layer.output_norm, self._epsilon)
            gate, up = _gate_and_up(normed, layer)
            state = _add_linear(state, functional.silu(gate).mul_(up), layer.down, layer.down_bias)
        return state

    def logits(self, hidden: Tensor) -> Tensor:
        """``(B, V)`` from rows of ``hidden``."""
        weights = self._weights
        normed = functional.rms_norm(hidden, hidden.shape[-1:], weights.norm, self._epsilon)
        return functional.linear(normed, weights.head, weights.head_bias)

    def _copy_weights(self) -> _Weights:
        embedding = self._backbone.embed_tokens.weight.detach()  # shared: nothing samples while weights change
        head: Any = self._model.get_output_embeddings()
        is_tied = head.weight.data_ptr() == self._backbone.embed_tokens.weight.data_ptr()
        return _Weights(
            embedding=embedding,
            layers=tuple(self._copy_layer(layer) for layer in self._backbone.layers),
            norm=self._backbone.norm.weight.detach().clone(),
            head=embedding if is_tied else head.weight.detach(),
            head_bias=_clone(head.bias),
            rotations=self._rotations(),
        )

    def _copy_layer(self, layer: Any) -> _Layer:  # Any: a module of transformers
        attention, mlp = layer.self_attn, layer.mlp
        _, heads, groups, size = self.shape
        query, key, value = attention.q_proj, attention.k_proj, attention.v_proj
        head_norm = None
        if hasattr(attention, "q_norm"):
            norms = [attention.q_norm.weight] * heads + [attention.k_norm.weight] * groups
            head_norm = torch.stack([_interleave(weight.detach()[:, None], size)[:, 0] for weight in norms])
        qkv = torch.cat([_interleave(weight_of(query), size), _interleave(weight_of(key), size), weight_of(value)])
        qkv_bias = None
        if query.bias is not None:
            biases = [_interleave(linear.bias.detach()[:, None], size) for linear in (query, key)]
            qkv_bias = torch.cat([*biases, value.bias.detach()[:, None]])[:, 0]
        input_norm = layer.input_layernorm.weight.detach()
        output_norm = layer.post_attention_layernorm.weight.detach()
        if qkv.dtype != torch.float32:
            return _Layer(
                input_norm=input_norm,
                qkv=qkv,
                qkv_bias=qkv_bias,
                head_norm=head_norm,
                out=attention.o_proj.weight.detach().t(),
                out_bias=_detached(attention.o_proj.bias),
                output_norm=output_norm,
                gate=mlp.gate_proj.weight.detach(),
                gate_bias=_detached(mlp.gate_proj.bias),
                up=mlp.up_proj.weight.detach(),
                up_bias=_detached(mlp.up_proj.bias),
                down=mlp.down_proj.weight.detach().t(),
                down_bias=_detached(mlp.down_proj.bias),
            )
        both_bias = None
        if mlp.gate_proj.bias is not None:
            both_bias = torch.cat([mlp.gate_proj.bias, mlp.up_proj.bias]).detach()
        return _Layer(
            input_norm=None,
            qkv=qkv.mul_(input_norm),
            qkv_bias=qkv_bias,
            head_norm=head_norm,
            out=weight_of(attention.o_proj).t().clone(),
            out_bias=_clone(attention.o_proj.bias),
            output_norm=None,
            gate=torch.cat([weight_of(mlp.gate_proj), weight_of(mlp.up_proj)]).mul_(output_norm),
            gate_bias=both_bias,
            up=None,
            up_bias=None,
            down=weight_of(mlp.down_proj).t().clone(),
            down_bias=_clone(mlp.down_proj.bias),
        )

    def _rotations(self) -> Tensor:
        positions = torch.arange(self._positions, device=self._model.device)[None]
        cosine, sine = self._backbone.rotary_emb(self._backbone.norm.weight, positions)
        half = self.shape.size // 2
        return torch.complex(cosine[0, :, :half].float(), sine[0, :, :half].float())


def _interleave(rows: Tensor, size: int) -> Tensor:
    """``(heads·D, …)`` with the entries i and i + D/2 of each head, a rotated pair, made adjacent."""
    return rows.view(-1, 2, size // 2, rows.shape[1]).transpose(1, 2).reshape(rows.shape)


def _rotate_(pairs: Tensor, rotations_N: Tensor) -> None:
    """Rotates ``(N, heads, D / 2, 2)`` in place, computed in float32."""
    if pairs.dtype == torch.float32:
        torch.view_as_complex(pairs).mul_(rotations_N)
    else:
        pairs.copy_(torch.view_as_real(torch.view_as_complex(pairs.float()).mul_(rotations_N)))


def _gate_and_up(normed: Tensor, layer: _Layer) -> tuple[Tensor, Tensor]:
    gate = functional.linear(normed, layer.gate, layer.gate_bias)
    if layer.up is None:
        both, up = gate.chunk(2, dim=1)
        return both, up
    return gate, functional.linear(normed, layer.up, layer.up_bias)


def _add_linear(state: Tensor, rows: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    total = torch.addmm(state, rows, weight)
    return total if bias is None else total.add_(bias)


def _clone(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.detach().clone()


def _detached(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.detach()
