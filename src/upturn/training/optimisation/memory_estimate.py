"""Estimates the peak memory of a training run from the model's shape, before it starts. Does not load torch.

It counts what a step holds: weights, optimiser, gradients, the tensors that autograd keeps for a Llama-family
decoder with this package's tree or padded pass, the probabilities of the output layer, copies, and the engine's
cache. The numbers of bytes in ``_KEPT`` follow from the operations of such a layer; tests compare the peaks with
real steps, counted by the allocator, and allow 15 %. Not counted: libraries, and what an allocator reserves.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from upturn.config import OptimiserSettings

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel

Base = Literal["full", "nf4"]
_FLOAT, _SHORT = 4, 2
"""Bytes of a number in float32 and in bfloat16."""
_NF4 = 0.5 + 1 / 64 + 4 / (64 * 256)
"""Bytes of a weight in 4 bits, with its scale: one byte for 64 weights, and four for 256 of those."""
_MOMENTS = {"float32": 8.0, "8bit": 2 + 8 / 256}
"""Bytes of AdamW's moments per trained number; in 8 bits with a float32 scale for 256 numbers of each."""
_KEPT_PROBABILITIES = 1 << 26
_CHUNK = 1 << 23
_DEVICE_CHUNKS = 8
"""Equal to ``KEPT_NUMBERS``, ``CHUNK_NUMBERS`` and ``_DEVICE_CHUNKS`` of ``logprob_head``, whose module loads
torch."""


_RECOMPUTED: tuple[Literal["none", "full"], ...] = ("none", "full")
DEFAULT_RANK = 16
"""Of an adapter in a comparison, where none is configured."""


class _Layer(NamedTuple):
    """Bytes per token that a decoder layer keeps, as multiples of its sizes, and those of its backward pass."""

    width: int
    key_value: int
    inner: int
    rank: int
    inner_backward: int
    """Multiple of the inner size at the peak of a recomputed layer, then with 8 of the width."""
    start: int
    """Multiple of the width for temporary gradients when the backward pass starts."""


_KEPT = {
    ("float32", False): _Layer(32, 8, 16, 0, 32, 20),
    ("float32", True): _Layer(24, 8, 16, 28, 24, 22),
    ("bfloat16", False): _Layer(30, 4, 8, 0, 20, 15),
    ("bfloat16", True): _Layer(24, 4, 8, 14, 12, 15),
    ("bfloat16_weights", False): _Layer(20, 4, 8, 0, 20, 15),
    ("bfloat16_weights", True): _Layer(16, 4, 8, 14, 12, 15),
}
"""By precision, and whether only an adapter is trained: then inputs of frozen layers and norms are not kept. Of
float32's 32: 8 numbers of the model's width (two inputs of norms, two norms, two results, queries, attention)."""


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
    is_tied: bool = False
    """Whether the output layer has the embedding's weights."""
    rank: int = 0
    """Rank of the adapter; 0 = none."""

    @property
    def embeddings(self) -> int:
        """Parameters of embedding and output layer."""
        return self.vocabulary * self.width * (1 if self.is_tied else 2)

    @property
    def adapter(self) -> int:
        """Parameters of the adapter."""
        return self.trained if self.rank else 0

    def with_rank(self, rank: int) -> "ModelShape":
        """The same model with an adapter of this rank on all linear layers of its decoder layers; 0 = without."""
        width, inner, key_value = self.width, self.inner, self.key_value
        query = self.query
        sides = 2 * (width + query) + 2 * (width + key_value) + 3 * (width + inner)
        whole, added = self.parameters - self.adapter, rank * sides * self.layers
        return ModelShape(
            whole + added,
            added if rank else whole,
            self.layers,
            width,
            inner,
            key_value,
            self.vocabulary,
            self.context,
            self.is_tied,
            rank,
        )

    @property
    def query(self) -> int:
        """Width of one token's queries: what the weights leave for the query and the output projection."""
        rest = (self.parameters - self.adapter - self.embeddings) / self.layers
        return max(self.key_value, round(rest / self.width - 2 * self.key_value - 3 * self.inner) // 2)


class Load(NamedTuple):
    """What a run computes and holds besides the model in training."""

    written_tokens: int
    """Of one micro-batch."""
    references: int = 0
    """Further frozen models of the same size. A reference of an adapter is none: the adapter is switched off."""
    has_best: bool = False
    """Whether the best weights so far are kept."""
    is_sampled: bool = False
    """Whether an engine of this process samples."""
    cached_tokens: int = 0
    """Of all concurrent rollouts."""
    reserved_tokens: int = 0
    """Of the cache of an engine that runs the model's modules, as for an adapter on bfloat16: all at once."""
    is_cpu: bool = False


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes."""

    weights: int
    copies: int
    """Of the weights: the engine's, a reference, the best so far."""
    optimiser: int
    """AdamW's state and float32 weights on the model's device."""
    gradients: int
    """Of all trained weights, at the end of the backward pass, and what a step needs for its largest tensor."""
    activations: int
    """Of one micro-batch."""
    head: int
    """Probabilities of one micro-batch's written tokens, and the output layer's gradient."""
    cache: int
    """Keys and values of live rollouts."""

    @property
    def total(self) -> int:
        """The peak: activations are freed while gradients are added, and caches stay between rollouts."""
        kept = self.weights + self.copies + self.optimiser + self.cache
        return kept + max(self.activations + self.head, self.gradients)


def model_shape(model: "PreTrainedModel") -> ModelShape:
    """The model's sizes, from its configuration and its parameters, which may be on torch's meta device."""
    config: Any = model.config.get_text_config()  # configurations of transformers are open-ended
    heads = config.num_attention_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // heads
    named = list(model.named_parameters())
    adapter = {name: parameter for name, parameter in named if ".lora_" in name}
    total = sum(_numbers(parameter) for _, parameter in named)
    trained = sum(parameter.numel() for _, parameter in named if parameter.requires_grad)
    return ModelShape(
        parameters=total,
        trained=trained,
        layers=config.num_hidden_layers,
        width=config.hidden_size,
        inner=getattr(config, "intermediate_size", None) or 4 * config.hidden_size,
        key_value=(getattr(config, "num_key_value_heads", None) or heads) * size,
        vocabulary=config.vocab_size,
        context=config.max_position_embeddings,
        is_tied=bool(getattr(config, "tie_word_embeddings", False)),
        rank=next((parameter.shape[0] for name, parameter in adapter.items() if ".lora_A" in name), 0),
    )


def configured_shape(config: "PretrainedConfig") -> ModelShape:
    """The sizes of the model that a configuration describes; no weights are read or made."""
    import torch
    from transformers import AutoModelForCausalLM

    with torch.device("meta"):
        model: PreTrainedModel = AutoModelForCausalLM.from_config(config)
    return model_shape(model)


def estimate_memory(shape: ModelShape, settings: OptimiserSettings, load: Load, *, base: Base = "full") -> Memory:
    """The memory of a run on one device, with micro-batches of ``settings.micro_batch_tokens``.

    ``base``: form of the weights under an adapter.
    """
    tokens, is_short = settings.micro_batch_tokens, settings.precision == "bfloat16_weights"
    number = _SHORT if is_short else _FLOAT
    frozen = shape.parameters - shape.adapter
    quantised = frozen - shape.embeddings if base == "nf4" else 0
    weights = number * (shape.parameters - quantised) + _NF4 * quantised
    has_copies = is_short or settings.offload
    master = _FLOAT if has_copies and settings.rounding == "master" else 0
    state = 0.0 if settings.offload else _MOMENTS[settings.moments] + master
    # in bfloat16 the direct backend copies queries, keys and values only, and does not merge adapters
    is_direct = not (is_short and shape.rank)
    copied = frozen - shape.embeddings
    if is_short:
        copied = shape.layers * shape.width * (shape.query + 2 * shape.key_value)
    engine = number * copied if load.is_sampled and is_direct else 0
    references = 0 if shape.rank else load.references
    copies = engine + references * number * shape.parameters + load.has_best * number * shape.trained
    return Memory(
        weights=round(weights),
        copies=copies,
        optimiser=round(state * shape.trained),
        gradients=_gradients(shape, settings, is_cpu=load.is_cpu),
        activations=_activations(
            shape, settings, tokens, written_share=min(1.0, load.written_tokens / tokens), base=base
        ),
        head=_head(shape, settings, load.written_tokens, is_cpu=load.is_cpu),
        cache=number
        * 2
        * shape.layers
        * shape.key_value
        * (load.cached_tokens if is_direct else load.reserved_tokens),
    )


def memory_choices(
    shape: ModelShape, settings: OptimiserSettings, load: Load, *, rank: int = DEFAULT_RANK
) -> dict[str, Memory]:
    """The memory of the same run with other settings, by their names; ``rank``: of an adapter on all layers."""
    whole, adapted = shape.with_rank(0), shape.with_rank(rank)
    plain = replace(
        settings,
        precision="float32",
        rounding="master",
        moments="float32",
        offload=False,
        gradient_checkpointing="none",
    )
    short = replace(plain, precision="bfloat16_weights")
    least = replace(short, rounding="stochastic", moments="8bit")
    kinds: list[tuple[str, ModelShape, OptimiserSettings, Base]] = [
        ("float32", whole, plain, "full"),
        ("bfloat16_weights", whole, short, "full"),
        ("bfloat16_weights stochastic 8bit", whole, least, "full"),
        ("lora float32", adapted, plain, "full"),
        ("lora bfloat16_weights", adapted, short, "full"),
        ("lora nf4", adapted, short, "nf4"),
    ]
    return {
        name + ("" if recomputed == "none" else " recomputed"): estimate_memory(
            kind, replace(chosen, gradient_checkpointing=recomputed), load, base=base
        )
        for name, kind, chosen, base in kinds
        for recomputed in _RECOMPUTED
    }


def _activations(
    shape: ModelShape, settings: OptimiserSettings, tokens: int, *, written_share: float, base: Base
) -> int:
    kept = _KEPT[settings.precision, bool(shape.rank)]
    number = _FLOAT if settings.precision == "float32" else _SHORT
    attention = kept.width * shape.width + kept.key_value * shape.key_value + kept.rank * shape.rank
    attention += 2 * number * max(0, shape.query - shape.width)  # queries and results of wide heads
    layer = attention + kept.inner * shape.inner
    last = attention + kept.inner * shape.inner * written_share  # its feed-forward part skips unused positions
    start = kept.start * shape.width
    # two of the model's width between embedding and head; and weights in bfloat16, which autocast makes
    fixed: float = tokens * (0 if shape.rank else 8) * shape.width
    linear = shape.parameters - shape.adapter - shape.embeddings
    if settings.precision == "bfloat16":
        fixed += _SHORT * linear
    if base == "nf4":
        fixed += _SHORT * shape.width * shape.inner  # a layer's weights, as the backward pass reads them
    residual = (_SHORT if settings.precision == "bfloat16_weights" else _FLOAT) * shape.width
    recomputed = {"none": 0, "half": (shape.layers + 1) // 2, "full": shape.layers}[settings.gradient_checkpointing]
    stored = shape.layers - recomputed
    if not recomputed:
        return round(tokens * ((stored - 1) * layer + last + start) + fixed)
    backward = 8 * shape.width + kept.key_value * shape.key_value + kept.inner_backward * shape.inner
    peak: float = max(layer, backward + kept.rank * shape.rank)
    if stored:  # the last layer is stored, and freed before another one is recomputed
        peak = max(peak, last + start) - layer
    return round(tokens * (stored * layer + recomputed * residual + peak) + fixed)


def _head(shape: ModelShape, settings: OptimiserSettings, written_tokens: int, *, is_cpu: bool) -> int:
    """Kept probabilities and one chunk of logits; a trained output layer's gradient; its weights in bfloat16."""
    logits, weights = written_tokens * shape.vocabulary, shape.vocabulary * shape.width
    kept = min(logits, _KEPT_PROBABILITIES)
    chunk = _CHUNK * (1 if is_cpu else _DEVICE_CHUNKS)
    numbers = _FLOAT * (kept + min(logits - kept, chunk))
    gradient = 0 if shape.rank else _FLOAT * weights
    if settings.precision != "float32":
        numbers += _SHORT * min(logits, chunk)
        gradient += 0 if shape.rank else _SHORT * weights  # a chunk's part, before it is added in float32
    cast = _SHORT * weights if settings.precision == "bfloat16" else 0
    return numbers + gradient + cast


def _gradients(shape: ModelShape, settings: OptimiserSettings, *, is_cpu: bool) -> int:
    """In float32, with the temporary tensors of the largest parameter: the embedding, or the adapter's.

    bitsandbytes takes a step on a CPU with three float32 tensors, on an accelerator with none.
    """
    largest = shape.rank * shape.inner if shape.rank else shape.vocabulary * shape.width
    if settings.offload:
        return 2 * _FLOAT * largest  # one gradient at a time leaves the device
    temporary = 3 * _FLOAT if settings.moments == "8bit" and is_cpu else 0
    if settings.precision == "bfloat16_weights":
        temporary += _SHORT if settings.rounding == "master" else 3 * _FLOAT
    return _FLOAT * shape.trained + temporary * largest


def _numbers(parameter: Any) -> int:  # Any: bitsandbytes' packed weights are parameters too
    state = getattr(parameter, "quant_state", None)
    return int(parameter.numel()) if state is None else int(state.shape[0] * state.shape[1])
