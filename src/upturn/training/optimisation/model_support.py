"""Checks whether a model can be trained here, and whether shared prefixes can be computed once for it.

Pure functions of a model's class, configuration and modules. Other properties, such as a bias of positions, are
detected by the verification against the padded pass (``upturn.training.optimisation.forward``).
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from torch import nn
from transformers import PreTrainedModel

from upturn.errors import TrainingError
from upturn.models.engine import language_part

_UNUSED = ("classifier", "summary")
"""Prefixes of settings for heads that a language model does not use."""
_ATTENTION = frozenset({"full_attention", "sliding_attention", "chunked_attention"})
"""Layer types that depend on earlier tokens through attention only."""


class RandomPart(NamedTuple):
    """A source of randomness in the forward pass."""

    name: str
    rate: float


def refuse_random(model: PreTrainedModel) -> None:
    """Raises TrainingError for a model with randomness in training, such as dropout.

    It would train a different policy than the one that sampled, and resuming would not be exact.
    """
    part = next(random_parts(model), None)
    if part is not None:
        raise TrainingError(
            f"the model has dropout or noise ({part.name} = {part.rate!r}): it would train a different policy than "
            "the one that sampled; load it with 0"
        )


def random_parts(model: PreTrainedModel) -> Iterator[RandomPart]:
    """Active dropout modules, then settings for dropout, skipped layers or noise in a model's code."""
    for name, module in _used_modules(model):
        if isinstance(module, nn.Dropout) and module.p:
            yield RandomPart(name, float(module.p))
    settings: dict[str, Any] = _text_config(model).to_dict()
    for name, value in settings.items():
        is_random = any(word in name for word in ("dropout", "pdrop", "layerdrop", "jitter_noise"))
        if is_random and not name.startswith(_UNUSED) and isinstance(value, int | float) and value:
            yield RandomPart(name, float(value))


def tree_unsupported_reason(model: PreTrainedModel, longest: int) -> str | None:
    """Why attention over a token tree cannot be exact for rows of at most ``longest`` tokens; None = it can.

    Only attention separates the branches of a tree: any other path between tokens would leak one rollout into
    another.
    """
    recurrent = _recurrent_part(model)
    if recurrent is not None:
        return f"{recurrent} carries information between tokens outside attention"
    if not getattr(model, "_supports_attention_backend", False):
        return "its attention cannot be replaced (it does not use the attention functions of transformers)"
    scores = _other_scores(model)
    if scores is not None:
        return f"its attention has {scores}"
    window = _narrowest_window(model)
    if window is not None and window < longest:
        return f"it attends to a window of {window} tokens only, and there are rows of {longest}"
    return None


def _recurrent_part(model: PreTrainedModel) -> str | None:
    """The first part with recurrent state; None = none."""
    kinds = [kind for kind in getattr(_text_config(model), "layer_types", None) or () if kind not in _ATTENTION]
    if kinds:
        return f"a layer of type {kinds[0]!r}"
    for name, module in _used_modules(model):
        is_convolution = isinstance(module, nn.Conv1d) and module.kernel_size[0] > 1
        if is_convolution or isinstance(module, nn.RNNBase):
            return f"{name} ({type(module).__name__})"
    return f"{type(model).__name__}'s state" if getattr(model, "_is_stateful", False) else None


def _other_scores(model: PreTrainedModel) -> str | None:
    """What the model's attention adds to plain scores; None = nothing."""
    if getattr(_text_config(model), "attn_logit_softcapping", None) is not None:
        return "capped scores"
    return "sinks" if any(name.endswith(".sinks") for name, _ in model.named_parameters()) else None


def _narrowest_window(model: PreTrainedModel) -> int | None:
    """The narrowest attention window of a layer in tokens; None = unlimited."""
    config = _text_config(model)
    kinds = set(getattr(config, "layer_types", None) or ())
    sizes = []
    if "sliding_attention" in kinds or not kinds:
        sizes.append(getattr(config, "sliding_window", None))
    if "chunked_attention" in kinds:
        sizes.append(getattr(config, "attention_chunk_size", None))
    return min((size for size in sizes if size is not None), default=None)


def _text_config(model: PreTrainedModel) -> Any:
    """The language model's configuration; those of transformers are open-ended."""
    return model.config.get_text_config(decoder=True)


def _used_modules(model: PreTrainedModel) -> Iterable[tuple[str, nn.Module]]:
    """The modules by name; of a vision-language model those of its language model."""
    modules: Iterable[tuple[str, nn.Module]] = language_part(model).named_modules()
    return modules
