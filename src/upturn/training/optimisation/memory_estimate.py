"""What a training run will take, before it is started: memory from the model's shape. No torch is loaded here.

An estimate, not a promise: it counts what autograd keeps of a decoder of the Llama family, with the tree or padded
pass of this package, and nothing of what libraries occupy or the allocator holds in reserve. Measured against the
highest memory of real steps it is within a third (tests), with an allocator that gives back what is freed. glibc's
own keeps more: on a CPU a step was seen to occupy up to 1.3 times the estimate, with activations computed again up
to 2.8 times.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_FLOAT = 4
"""Bytes of one number in float32."""
_ADAM = 2
"""Further numbers that AdamW keeps for each trained one."""
_KEPT_PROBABILITIES = 1 << 26
"""As ``training.head`` keeps them at most; it loads torch."""


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The sizes that memory depends on."""

    parameters: int
    trained: int
    """Of them; fewer with adapters."""
    layers: int
    width: int
    inner: int
    """Inside the feed-forward part."""
    key_value: int
    """Width of all keys of one token: key-value heads times their size."""
    vocabulary: int
    context: int
    """The longest sequence in tokens."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes."""

    weights: int
    """The model, and copies of it that a run holds on to."""
    optimiser: int
    """Gradients and what AdamW keeps."""
    activations: int
    """Of one micro-batch."""
    head: int
    """Probabilities of one micro-batch's written tokens."""
    cache: int
    """Keys and values of attempts that are being sampled."""

    @property
    def total(self) -> int:
        """At the worst moment: sampling and updating take turns, but caches stay."""
        return self.weights + self.optimiser + self.activations + self.head + self.cache


def shape_of(model: "PreTrainedModel") -> ModelShape:
    """The model's sizes, from its configuration and its parameters."""
    config: Any = model.config.get_text_config()  # configurations of transformers are open-ended
    heads = config.num_attention_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // heads
    counts = [(parameter.numel(), parameter.requires_grad) for parameter in model.parameters()]
    return ModelShape(
        parameters=sum(count for count, _ in counts),
        trained=sum(count for count, is_trained in counts if is_trained),
        layers=config.num_hidden_layers,
        width=config.hidden_size,
        inner=getattr(config, "intermediate_size", None) or 4 * config.hidden_size,
        key_value=(getattr(config, "num_key_value_heads", None) or heads) * size,
        vocabulary=config.vocab_size,
        context=config.max_position_embeddings,
    )


def memory(
    shape: ModelShape,
    *,
    micro_batch_tokens: int,
    written_tokens: int,
    is_checkpointed: bool = False,
    copies: int = 0,
    cached_tokens: int = 0,
) -> Memory:
    """Of a run on one device, in float32.

    ``written_tokens``: of one micro-batch. ``is_checkpointed``: activations are computed again in the backward
    pass, layer by layer. ``copies``: further models of the same size that are kept and not trained, such as a
    reference. ``cached_tokens``: of all attempts alive at the same time, 0 = nothing is sampled.
    """
    each = 9 * shape.width + 2 * shape.key_value + 4 * shape.inner
    # One layer's gradients come on top of its activations where those of the other layers are not there.
    kept = shape.layers * shape.width + each + 3 * shape.inner if is_checkpointed else shape.layers * each
    return Memory(
        weights=_FLOAT * (1 + copies) * shape.parameters,
        optimiser=_FLOAT * (1 + _ADAM) * shape.trained,
        activations=_FLOAT * micro_batch_tokens * kept,
        head=_FLOAT * min(written_tokens * shape.vocabulary, _KEPT_PROBABILITIES),
        cache=_FLOAT * 2 * shape.layers * shape.key_value * cached_tokens,
    )
