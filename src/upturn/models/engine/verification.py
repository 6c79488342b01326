"""Chooses a model's backend and verifies that its logits equal the model's.

The direct backend where possible, else the model's modules. Either is compared with the model's plain forward pass
at construction and on some changes of weights (see ``LocalEngine.refresh``): prefill, shared prefix, decoding, and
prefill after them.
"""

import warnings
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import torch
from transformers import PreTrainedModel

from upturn.errors import ModelError, error_text
from upturn.models.engine.backend import Backend, Block
from upturn.models.engine.decoder import STATIC_ROTATION, unsupported_reason
from upturn.models.engine.direct import DirectModel
from upturn.models.engine.modules import ModuleModel

Forward: TypeAlias = Literal["direct", "modules"]

TOLERANCE = 1e-3
"""Largest accepted |Δ logit| between cached and plain float32 forward; other types: 100 times."""
_LENGTH = 192
"""Tokens of the comparison: three quarters of them are enough for a prefix to be shared, not copied."""


class OpenedBackend(NamedTuple):
    """A model's backend and why it was chosen."""

    backend: Backend
    forward: Forward
    reason: str | None
    """Why it is not the direct one; None = it is, or ``modules`` was requested."""


def open_backend(model: PreTrainedModel, slots: int, max_length: int, requested: Forward | None) -> OpenedBackend:
    """The direct backend where it is exact, else the modules; ``requested`` fixes the choice.

    Warns where the direct backend supports the model but its logits differ. Raises ModelError where neither backend
    is exact, or the requested one is not.
    """
    _refuse_partial_attention(model, max_length)
    reason = None
    if requested != "modules":
        reason = unsupported_reason(model)
        if reason is None:
            direct = DirectModel(model, slots, max_length)
            gap = largest_gap(direct, model, slots, max_length)
            if gap <= allowed_gap(model):
                return OpenedBackend(direct, "direct", None)
            reason = f"its logits differ by {gap:.2g} from those of the model (allowed {allowed_gap(model):g})"
            warnings.warn(
                f"LocalEngine runs {_name(model)} through its modules: {reason}", RuntimeWarning, stacklevel=4
            )
        if requested == "direct":
            raise ModelError(f"the direct forward pass cannot serve {_name(model)}: {reason}")
    try:
        modules = ModuleModel(model, slots, max_length)
        verify(modules, model, slots, max_length)
    except ModelError:
        raise
    except Exception as exc:  # third-party modules may fail in any way with our cache
        raise ModelError(
            f"{_name(model)} cannot be run over LocalEngine's cache: {error_text(exc)}; fix that or "
            "serve this model behind an OpenAI-compatible endpoint"
        ) from exc
    return OpenedBackend(modules, "modules", reason)


def verify(backend: Backend, model: PreTrainedModel, slots: int, max_length: int) -> None:
    """Raises ModelError when the backend and the model's plain forward pass differ."""
    gap, allowed = largest_gap(backend, model, slots, max_length), allowed_gap(model)
    if not gap <= allowed:
        raise ModelError(
            f"cached and plain forward of {_name(model)} differ by {gap:.2g} (allowed {allowed:g}); LocalEngine "
            "cannot serve this model: serve it behind an OpenAI-compatible endpoint"
        )


def allowed_gap(model: PreTrainedModel) -> float:
    """Largest |Δ logit| attributed to rounding."""
    return TOLERANCE if model.dtype == torch.float32 else 100 * TOLERANCE


@torch.inference_mode()
def largest_gap(backend: Backend, model: PreTrainedModel, slots: int, max_length: int) -> float:
    """Largest |Δ logit| over the ways to fill a cache; all slots are empty before and after."""
    length = min(_LENGTH, max_length)
    config: Any = model.config
    ids = np.arange(length) * 7 % config.vocab_size
    plain = _plain_logits(model, ids)
    first, second = length // 2 + length // 4, length - 1
    used = np.arange(min(2, slots))
    gaps: list[torch.Tensor] = []

    def compare(start: int, stop: int) -> None:
        count = len(used)
        block = Block(used, np.full(count, start), np.full(count, stop - start), np.tile(ids[start:stop], count))
        gaps.append((backend.forward([block]) - plain[stop - 1]).abs().max())

    if first:
        zero = np.array([0])
        logits = backend.forward([Block(zero, zero, np.array([first]), ids[:first])])
        gaps.append((logits - plain[first - 1]).abs().max())
        backend.copy(0, used[1:].tolist(), first)
        if first + 1 < second:
            compare(first, first + 1)
            compare(first + 1, second)
        elif first < second:
            compare(first, second)
    compare(second, length)
    for slot in used.tolist():
        backend.cut(slot, 0)
    return float(torch.stack(gaps).max())


def _plain_logits(model: PreTrainedModel, ids: np.typing.NDArray[np.int64]) -> torch.Tensor:
    was_training = model.training
    model.train(False)
    try:
        output: Any = model(input_ids=torch.from_numpy(ids[None]).to(model.device), use_cache=False)
    finally:
        model.train(was_training)
    logits: torch.Tensor = output.logits[0]
    return logits


def _refuse_partial_attention(model: PreTrainedModel, max_length: int) -> None:
    config: Any = model.config  # attributes differ between model families
    kinds = set(getattr(config, "layer_types", None) or ())
    if kinds - {"full_attention"} or (not kinds and getattr(config, "sliding_window", None) is not None):
        raise ModelError(
            f"LocalEngine serves models with full causal attention only, got layer types {sorted(kinds)!r}; "
            "serve this model behind an OpenAI-compatible endpoint"
        )
    rotary = getattr(model.get_decoder(), "rotary_emb", None)
    kind = getattr(rotary, "rope_type", "default")
    trained = getattr(rotary, "original_max_seq_len", None)
    if kind not in STATIC_ROTATION and trained is not None and max_length > trained:
        raise ModelError(
            f"rotary type {kind!r} rotates differently beyond {trained} tokens, which a cache cannot follow; give "
            f"LocalEngine a max_length of at most {trained}, got {max_length!r}"
        )


def _name(model: PreTrainedModel) -> str:
    return type(model).__name__
