"""Estimates the memory of a training run from the model's shape, before it starts. Does not load torch.

It counts the tensors that autograd keeps for a Llama-family decoder with this package's tree or padded pass, not
the memory of libraries or the allocator's reserve. It is within a third of the peak memory of real steps (tests)
with an allocator that returns freed memory. glibc's keeps more: on a CPU a step used up to 1.3 times the estimate,
with activation checkpointing up to 2.8 times.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_FLOAT = 4
"""Bytes of one number in float32."""
_ADAM = 2
"""Numbers in AdamW's state per trained parameter."""
_KEPT_PROBABILITIES = 1 << 26
"""Equal to ``logprob_head.KEPT_NUMBERS``, whose module loads torch."""


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The sizes that memory depends on."""

    parameters: int
    trained: int
    """Trained parameters: all, or those of the adapter."""
    layers: int
    width: int
    inner: int
    """Inside the feed-forward part."""
    key_value: int
    """Width of one token's keys: key-value heads times their size."""
    vocabulary: int
    context: int
    """The longest sequence in tokens."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes."""

    weights: int
    """The model and a run's copies of it."""
    optimiser: int
    """Gradients and AdamW's state."""
    activations: int
    """Activations of one micro-batch."""
    head: int
    """Probabilities of one micro-batch's written tokens."""
    cache: int
    """Keys and values of live rollouts."""

    @property
    def total(self) -> int:
        """Peak: sampling and updating alternate, but caches stay."""
        return self.weights + self.optimiser + self.activations + self.head + self.cache


def model_shape(model: "PreTrainedModel") -> ModelShape:
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


def estimate_memory(
    shape: ModelShape,
    *,
    micro_batch_tokens: int,
    written_tokens: int,
    is_checkpointed: bool = False,
    copies: int = 0,
    cached_tokens: int = 0,
) -> Memory:
    """The memory of a run on one device, in float32.

    ``written_tokens``: of one micro-batch. ``is_checkpointed``: activations are recomputed in the backward pass,
    layer by layer. ``copies``: further frozen models of the same size, such as a reference. ``cached_tokens``: of
    all concurrent rollouts, 0 = no sampling.
    """
    per_layer = 9 * shape.width + 2 * shape.key_value + 4 * shape.inner
    # With checkpointing, one layer's gradients add to its activations; other layers' activations are absent.
    kept = shape.layers * shape.width + per_layer + 3 * shape.inner if is_checkpointed else shape.layers * per_layer
    return Memory(
        weights=_FLOAT * (1 + copies) * shape.parameters,
        optimiser=_FLOAT * (1 + _ADAM) * shape.trained,
        activations=_FLOAT * micro_batch_tokens * kept,
        head=_FLOAT * min(written_tokens * shape.vocabulary, _KEPT_PROBABILITIES),
        cache=_FLOAT * 2 * shape.layers * shape.key_value * cached_tokens,
    )
