"""Chooses a model's backend and verifies that its logits equal the model's.

The direct backend where possible, else the model's modules over our cache, else the model over its own cache. Each
is compared with the model's plain forward pass at construction and on some changes of weights (see
``LocalEngine.refresh``): prefill, shared prefix, decoding, and prefill after them, beyond an attention window where
that is at most 1,024 tokens.
"""

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import torch
from transformers import PreTrainedModel

from upturn.errors import ModelError, error_text
from upturn.models.engine.backend import Backend, Block
from upturn.models.engine.decoder import STATIC_ROTATION, unsupported_reason
from upturn.models.engine.direct import DirectModel
from upturn.models.engine.fallback import REUSES, FallbackModel
from upturn.models.engine.head import backbone_of
from upturn.models.engine.modules import ModuleModel
from upturn.models.engine.recurrent import RecurrentModel, has_states

Forward: TypeAlias = Literal["direct", "modules", "fallback"]
_FORWARDS: tuple[Forward, ...] = ("direct", "modules", "fallback")
"""The fastest first."""

TOLERANCE = 1e-3
"""Largest accepted |Δ logit| between cached and plain float32 forward; other types: 100 times."""
_USUAL_LOGIT = 10.0
"""Models with smaller logits are compared more strictly: rounding is relative to them."""
_ROUGH_LOGIT = 2.0
"""In other types than float32, models with larger logits may differ by more: by 5 % of the largest logit. A model
of 28 layers differs by 2.3 %."""
_LENGTH = 192
"""Tokens of the comparison: three quarters of them are enough for a prefix to be shared, not copied."""
_WIDEST_WINDOW = 1024
"""Attention windows up to this many tokens are exceeded in the comparison; wider ones would make it slow."""
_REGISTRY = "ALL_ATTENTION_FUNCTIONS"
"""The name of the registry in files of models."""
_SHARED_FILE = "transformers.modeling_utils"
_WITHOUT_ATTENTION = frozenset({"linear_attention", "mamba", "conv"})
"""Layer types without scores between tokens."""
_DIFFERS = "its logits differ"


class OpenedBackend(NamedTuple):
    """A model's backend and why it was chosen."""

    backend: Backend
    forward: Forward
    reason: str | None
    """Why it is not a faster one; None = it is the fastest, or it was requested."""


def open_backend(model: PreTrainedModel, slots: int, max_length: int, requested: Forward | None) -> OpenedBackend:
    """The fastest exact backend: ``direct``, ``modules`` or ``fallback``; ``requested`` fixes the choice.

    Warns where a backend supports the model but its logits differ, and where the fallback is used. Raises
    ModelError where no backend is exact, or the requested one is not.
    """
    _refuse_turning_rotation(model, max_length)
    reasons: list[str] = []
    for forward in _FORWARDS if requested is None else (requested,):
        backend, problem = _OPEN[forward](model, slots, max_length)
        if backend is not None:
            if forward == "fallback":
                _warn(
                    f"LocalEngine runs {_name(model)} one sequence at a time over transformers' own cache "
                    f"(slower, same result){_because(reasons)}"
                )
            elif any(_DIFFERS in reason for reason in reasons):
                _warn(f"LocalEngine runs {_name(model)} through its modules{_because(reasons)}")
            return OpenedBackend(backend, forward, "; ".join(reasons) or None)
        reasons.append(f"{forward}: {problem}" if requested is None else problem)
    if requested is not None:
        raise ModelError(f"the {requested} forward pass cannot serve {_name(model)}{_because(reasons)}")
    raise ModelError(
        f"LocalEngine cannot serve {_name(model)} exactly{_because(reasons)}; serve this model behind an "
        "OpenAI-compatible endpoint"
    )


class _Attempt(NamedTuple):
    """An exact backend, or why there is none."""

    backend: Backend | None
    problem: str


def _open_direct(model: PreTrainedModel, slots: int, max_length: int) -> _Attempt:
    reason = unsupported_reason(model)
    if reason is not None:
        return _Attempt(None, reason)
    return _checked(lambda: DirectModel(model, slots, max_length), model, slots, max_length)


def _open_modules(model: PreTrainedModel, slots: int, max_length: int) -> _Attempt:
    """The model's layers, with states where it has any."""
    try:
        uses_registry, is_recurrent = _uses_registry(model), has_states(model)
    except (ValueError, LookupError, AttributeError, TypeError) as exc:  # a configuration of its own kind
        return _Attempt(None, f"its layers are unknown: {error_text(exc, longest=300)}")
    if not uses_registry:
        return _Attempt(None, "its attention cannot be replaced (it is not in the registry of transformers)")
    if not is_recurrent:
        return _checked(lambda: ModuleModel(model, slots, max_length), model, slots, max_length)
    attempt = _Attempt(None, "")
    for by_many in (True, False):
        build = partial(RecurrentModel, model, slots, max_length, is_continued_by_many=by_many)
        attempt = _checked(build, model, slots, max_length)
        if attempt.backend is not None:
            break
    return attempt


def _uses_registry(model: PreTrainedModel) -> bool:
    """Whether the model's code takes its attention from the registry of transformers, or has none."""
    files = [
        sys.modules[kind.__module__] for kind in type(backbone_of(model)).__mro__ if kind.__module__ != _SHARED_FILE
    ]
    kinds = set(getattr(model.config.get_text_config(decoder=True), "layer_types", None) or ())
    return (bool(kinds) and kinds <= _WITHOUT_ATTENTION) or any(hasattr(file, _REGISTRY) for file in files)


def _open_fallback(model: PreTrainedModel, slots: int, max_length: int) -> _Attempt:
    """The way with the most use of the cache that is exact; else the last problem."""
    attempt = _Attempt(None, "")
    for reuse in REUSES:
        attempt = _checked(partial(FallbackModel, model, slots, reuse), model, slots, max_length)
        if attempt.backend is not None:
            break
    return attempt


_OPEN: Mapping[Forward, Callable[[PreTrainedModel, int, int], _Attempt]] = {
    "direct": _open_direct,
    "modules": _open_modules,
    "fallback": _open_fallback,
}


def _checked(build: Callable[[], Backend], model: PreTrainedModel, slots: int, max_length: int) -> _Attempt:
    """The backend, compared with the model."""
    try:
        backend = build()
        gap = largest_gap(backend, model, slots, max_length)
    except Exception as exc:  # noqa: BLE001 — third-party modules may fail in any way with a cache
        return _Attempt(None, f"it cannot be run: {error_text(exc, longest=300)}")
    allowed = allowed_gap(model)
    if not gap <= allowed:
        return _Attempt(None, f"{_DIFFERS} by {gap:.2g} from those of the model (allowed {allowed:g})")
    return _Attempt(backend, "")


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
    """Largest |Δ logit| over the ways to fill a cache, larger where all logits are small, as at initialisation, and
    in other types than float32 smaller where some are large.

    All slots are empty before and after.
    """
    windows = [window for window in attention_windows(model) if window <= _WIDEST_WINDOW]
    length = min(max([_LENGTH, *(2 * window + 64 for window in windows)]), max_length)
    ids = np.arange(length) * 7 % _vocabulary(model)
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
        if first + 2 < second:
            compare(first, first + 1)
            compare(first + 1, first + 2)
            compare(first + 2, second)
        elif first < second:
            compare(first, second)
    compare(second, length)
    for slot in used.tolist():
        backend.cut(slot, 0)
    largest = plain.abs().max().clamp_min(1e-6)
    if model.dtype == torch.float32:
        scale = (largest / _USUAL_LOGIT).clamp_max(1.0)
    else:  # other types round small logits, too, and large ones by more
        scale = torch.maximum(largest.clamp_max(1.0), largest / _ROUGH_LOGIT)
    return float(torch.stack(gaps).max() / scale)


def _vocabulary(model: PreTrainedModel) -> int:
    embedding: Any = model.get_input_embeddings()
    return int(embedding.num_embeddings)


def _plain_logits(model: PreTrainedModel, ids: np.typing.NDArray[np.int64]) -> torch.Tensor:
    was_training = model.training
    model.train(False)
    try:
        output: Any = model(input_ids=torch.from_numpy(ids[None]).to(model.device), use_cache=False)
    finally:
        model.train(was_training)
    logits: torch.Tensor = output.logits[0]
    return logits


def attention_windows(model: PreTrainedModel) -> set[int]:
    """Widths of sliding windows and chunks of attention in the model's configuration; empty = none."""
    config: Any = model.config.get_text_config(decoder=True)  # attributes differ between model families
    sizes = {getattr(config, name, None) for name in ("sliding_window", "attention_chunk_size")}
    return {size for size in sizes if isinstance(size, int) and size > 0}


def _refuse_turning_rotation(model: PreTrainedModel, max_length: int) -> None:
    """Raises ModelError where earlier tokens would be rotated again when the sequence becomes longer."""
    rotary = getattr(model.get_decoder(), "rotary_emb", None)
    kinds = getattr(rotary, "rope_type", "default")
    trained = getattr(rotary, "original_max_seq_len", None)
    for kind in kinds.values() if isinstance(kinds, dict) else (kinds,):
        if kind not in STATIC_ROTATION and trained is not None and max_length > trained:
            raise ModelError(
                f"rotary type {kind!r} rotates differently beyond {trained} tokens, which a cache cannot follow; "
                f"give LocalEngine a max_length of at most {trained}, got {max_length!r}"
            )


def _because(reasons: Sequence[str]) -> str:
    return f": {'; '.join(reasons)}" if reasons else ""


def _warn(message: str) -> None:
    warnings.warn(message, RuntimeWarning, stacklevel=4)


def _name(model: PreTrainedModel) -> str:
    return type(model).__name__
