"""The tree-packed forward pass: from rows to the log-probability of every written token, with gradient.

A critic uses the same pass and reads values instead (``logprob_head.Read``). The model is an unmodified causal
language model of ``transformers``, adapters included: tree attention is registered in its attention registry; the
head (its output layer, or its own code where that scales or caps logits), and the last layer's attention to earlier
tokens and feed-forward part, run only at positions that predict a written token. The first use of each attention
backend is verified against the padded pass on a few of the real rows; where the two differ, or the model does not
support it, everything is computed padded from then on, with a warning and a count.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from upturn.config import Packing, Precision
from upturn.errors import TrainingError, error_text
from upturn.models.engine import backbone_of, full_tensor, head_of
from upturn.training.distributed import as_forward_pass, broadcast_first, gradients, world_of
from upturn.training.optimisation.attention import Backend, TreeAttention, tree_attention
from upturn.training.optimisation.batch import MicroBatch, micro_batches, padded_batch, tree_batch
from upturn.training.optimisation.logprob_head import Logits, Read, chosen_logprobs, logprobs_and_entropies
from upturn.training.optimisation.model_support import tree_unsupported_reason
from upturn.training.optimisation.tree import MIN_SHARED, common_length
from upturn.training.row import IntArray, TrainingRow

ATTENTION = "upturn_tree"
"""The name of tree attention in the registry of attention functions."""
_FLEX_FROM = 2048
"""Tokens from which one masked call is faster than one call per node on CUDA (KempnerForge PR 207)."""
_HEAD_TOKENS = 16
"""Tokens on which the head is verified: all of their logits are in memory."""
_HEAD_TOLERANCE = 1e-3
"""Largest log-prob difference between our head and the model's that rounding explains: float32 gives about 1e-6."""
_TOLERANCE = {torch.float32: 1e-3, torch.float64: 1e-6}
"""Largest |Δ log p| (or |Δ value|) between tree and padded pass that rounding explains; other types:
``_ROUGH_TOLERANCE``."""
_ROUGH_TOLERANCE = 0.1
_OTHER_SCORES = {"softcap": "capped scores", "s_aux": "sinks", "position_bias": "a bias of positions"}
"""Arguments in the registry with which a model asks for other scores than those of tree attention."""
_VERIFIED_TOKENS = 4096
"""The verification prefers rows with at most this many tokens."""


class Verification(NamedTuple):
    """The comparison of the tree pass with the padded one on real rows."""

    logprob_gap: float
    """Largest |Δ log p|."""
    gradient_gap: float
    """Relative difference of the gradient's 2-norm."""


class Forward:
    """Computes log-probabilities of micro-batches with one model, which is left unchanged."""

    def __init__(
        self, model: PreTrainedModel, *, packing: Packing, precision: Precision, read: Read = chosen_logprobs
    ) -> None:
        self.model = model
        self.read = read
        self.packing: Packing = packing
        """As requested."""
        self.precision = precision
        self.fallbacks = 0
        """Micro-batches computed padded although ``tree`` packing was requested."""
        self.verification: Verification | None = None
        """Of the latest verification; None = none yet."""
        self._verified: set[tuple[Backend, bool]] = set()
        """Backends, and whether they were verified on a shared prefix."""
        self._failed: dict[Backend, str] = {}
        """The reason, by backend."""
        self._parts: _Parts | None = None
        """Chosen with the first rows."""
        self._has_warned = False

    def batches(self, rows: Sequence[TrainingRow], max_tokens: int) -> tuple[MicroBatch, ...]:
        """The rows as micro-batches, none for no rows. Raises TrainingError for rows of another model."""
        if not rows:
            return ()
        self._check_rows(rows)
        packed = micro_batches(rows, max_tokens, self.packing)
        if self.packing == "padded":
            return packed
        problem = self._tree_problem(rows, packed)
        if problem is None:
            return packed
        if not self._has_warned:
            self._has_warned = True
            warnings.warn(
                f"{type(self.model).__name__} is trained without sharing common prefixes, each row separately "
                f"(slower, same result): {problem}",
                stacklevel=2,
            )
        packed = micro_batches(rows, max_tokens, "padded")
        self.fallbacks += len(packed)
        return packed

    @contextmanager
    def prepare(self, batch: MicroBatch) -> Iterator[None]:
        """Sets up the model's attention for the batch; must span forward and backward pass."""
        if batch.tree is None:
            yield
            return
        config: Any = backbone_of(self.model).config
        before = config._attn_implementation
        config._attn_implementation = ATTENTION
        try:
            with _narrow_last_layer(self.model, torch.from_numpy(_predictors(batch)).to(self.model.device)):
                yield
        finally:
            config._attn_implementation = before

    def logprobs(self, batch: MicroBatch) -> Tensor:
        """``(N,)``: log π of the batch's written tokens at their temperatures, in float32; carries the gradient.

        With another ``read``, its result instead. Call and differentiate it within ``prepare(batch)``.
        """
        return self._logprobs(batch, self._backend_of(batch))

    def attention_of(self, batch: MicroBatch) -> str:
        """The name of the attention that computes the batch: the tree's backend, or ``padded``."""
        return self._backend_of(batch) or "padded"

    def logprobs_and_entropies(self, batch: MicroBatch) -> tuple[Tensor, Tensor]:
        """The log-probs, and the entropy of π at each written token, in nats; ``(N,)`` each, as in ``logprobs``."""
        logprobs, entropies = self._logprobs(batch, self._backend_of(batch), logprobs_and_entropies)
        return logprobs, entropies

    def _backend_of(self, batch: MicroBatch) -> Backend | None:
        return None if batch.tree is None else self._backend(_layout(batch))

    def _logprobs(self, batch: MicroBatch, backend: Backend | None, read: Read | None = None) -> Tensor:
        """``backend``: None for a padded batch. ``read``: None = that of the model; its last axis is ``N``."""
        device = self.model.device
        input_ids = torch.from_numpy(batch.input_ids).to(device)
        arguments: dict[str, Any] = {"attention_mask": None, "use_cache": False}
        if batch.tree is not None and backend is not None:
            arguments[ATTENTION] = tree_attention(batch.tree, backend, device, predictors=_predictors(batch))
            arguments["position_ids"] = torch.from_numpy(batch.tree.depths)[None].to(device)
        assert self._parts is not None  # ``batches`` chooses them
        parts = self._parts

        def compute() -> Tensor:
            with torch.autocast(device.type, torch.bfloat16, enabled=self.precision == "bfloat16"):
                hidden = parts.states(self.model, input_ids, arguments).flatten(0, 1)
                chosen = hidden.index_select(0, torch.from_numpy(batch.predictors).to(device))
                targets = torch.from_numpy(batch.targets).to(device)
                heats = batch.temperatures
                temperatures = None if heats is None else torch.from_numpy(heats).to(device)
                return (read or self.read)(parts.head, chosen, targets, temperatures=temperatures)

        distinct = as_forward_pass(self.model, compute)
        return distinct.index_select(-1, torch.from_numpy(batch.copies).to(device))

    def _backend(self, layout: "_Layout") -> Backend | None:
        """The fastest backend for the layout that has not failed verification; None = none left."""
        candidates = self._candidates(layout)
        return next((backend for backend in candidates if backend not in self._failed), None)

    def _candidates(self, layout: "_Layout") -> tuple[Backend, ...]:
        is_half = self.precision != "float32" or self.model.dtype == torch.bfloat16
        return backends(self.model.device.type, *layout, is_half=is_half)

    def _check_rows(self, rows: Sequence[TrainingRow]) -> None:
        config: Any = self.model.config.get_text_config(decoder=True)  # configurations are open-ended
        context = getattr(config, "max_position_embeddings", None)
        longest = max(row.computed_length for row in rows)
        if context is not None and longest > context:
            raise TrainingError(
                f"a row needs {longest} tokens of context, the model has {context}; "
                "limit the rollout's tokens or skip the row"
            )
        selected = getattr(config, "index_topk", None)
        if selected is not None and longest > selected:
            raise TrainingError(
                f"a row has {longest} tokens, and each attends to a learned selection of {selected}, which depends "
                "on later tokens in transformers; limit the rollout's tokens to that many, or train another model"
            )
        ids = np.concatenate([row.token_ids[: row.computed_length + 1] for row in rows])
        lowest, highest = int(ids.min()), int(ids.max())
        if lowest < 0 or highest >= config.vocab_size:
            raise TrainingError(
                f"token ids run from {lowest} to {highest}, the model has 0 to {config.vocab_size - 1}; "
                "the rows belong to another model"
            )
        if self._parts is None:
            self._parts = self._choose_parts(rows[0])

    def _choose_parts(self, row: TrainingRow) -> "_Parts":
        """Once: backbone and head where together they give the logits of the full model, else the full model."""
        if self.read is not chosen_logprobs:  # a critic's model has no other output to compare with
            return _Parts(self.model.get_decoder(), self.model.get_output_embeddings())
        length = min(row.computed_length, _HEAD_TOKENS)
        input_ids = torch.from_numpy(row.token_ids[:length])[None].to(self.model.device)
        arguments: dict[str, Any] = {"attention_mask": None, "use_cache": False}
        whole = _Parts(None, Logits())
        self._refuse_later_tokens(whole, input_ids, arguments)
        chosen: list[_Parts] = []

        def compare() -> Tensor:
            parts = _Parts(backbone_of(self.model), head_of(self.model))
            chosen.append(parts)
            ours = parts.head(parts.states(self.model, input_ids, arguments)[0])
            return _largest_gap(ours, whole.states(self.model, input_ids, arguments)[0])

        try:
            with torch.no_grad():
                difference = float(as_forward_pass(self.model, compare))
            allowed = _HEAD_TOLERANCE if self.model.dtype in _TOLERANCE else _ROUGH_TOLERANCE
            problem = f"log-probs differ by {difference:.2g}" if not difference <= allowed else None
        except (TypeError, ValueError, RuntimeError, LookupError, AttributeError) as exc:
            problem = f"{type(exc).__name__}: {exc}"
        if problem is None:
            return chosen[0]
        warnings.warn(
            f"the logits of {type(self.model).__name__} are computed at all positions of a row (slower, more "
            f"memory, same result): its backbone and head cannot be run separately ({problem})",
            stacklevel=2,
        )
        return whole

    def _refuse_later_tokens(self, whole: "_Parts", input_ids: Tensor, arguments: Mapping[str, Any]) -> None:
        """Raises TrainingError for a model whose log-probs depend on later tokens, such as an encoder.

        Compared are two rows of equal length: rounding in bfloat16 differs between lengths.
        """
        half, config = -(-input_ids.shape[1] // 2), self.model.config.get_text_config()
        changed = input_ids.clone()
        changed[:, half:] = (changed[:, half:] + 1) % config.vocab_size

        def compare() -> Tensor:
            first, second = (whole.states(self.model, ids, arguments)[0, :half] for ids in (input_ids, changed))
            return _largest_gap(first, second)

        with torch.no_grad():
            difference = float(as_forward_pass(self.model, compare))
        if not difference <= (_HEAD_TOLERANCE if self.model.dtype in _TOLERANCE else _ROUGH_TOLERANCE):
            raise TrainingError(
                f"{type(self.model).__name__} is not a causal language model: its log-probs change by "
                f"{difference:.2g} with later tokens; load a decoder (for BERT's relatives: is_decoder = true)"
            )

    def _tree_problem(self, rows: Sequence[TrainingRow], batches: Sequence[MicroBatch]) -> str | None:
        """Why these rows cannot be computed as trees; None = they can, with the backends for their layouts."""
        if self._parts is not None and self._parts.backbone is None:
            return "its backbone and head cannot be run separately"
        reason = tree_unsupported_reason(self.model, max(row.computed_length for row in rows))
        if reason is not None:
            return reason
        sample = _sample(rows)
        reasons = (self._verify(sample, layout) for layout in sorted(set(map(_layout, batches))))
        return next((reason for reason in reasons if reason is not None), None)

    def _verify(self, sample: "_Sample", layout: "_Layout") -> str | None:
        """The difference of the last backend for the layout; None = one of them is exact.

        Each is verified before its first use, and before its first use on rows with a common prefix.
        """
        difference = None
        for backend in self._candidates(layout):
            if backend not in self._failed and (backend, sample.has_shared_prefix) in self._verified:
                return None
            difference = self._failed.get(backend) or self._difference(sample.rows, backend)
            if difference is None:
                self._verified.add((backend, sample.has_shared_prefix))
                return None
            if backend not in self._failed:
                self._failed[backend] = difference
                if self._backend(layout) is not None:
                    warnings.warn(f"attention by {backend!r} is not used: {difference}", stacklevel=2)
        return difference

    def _difference(self, rows: Sequence[TrainingRow], backend: Backend) -> str | None:
        """How the tree pass differs from the padded pass; None = not beyond rounding.

        Every process computes it, since the weights are sharded, and uses the first one's result.
        """
        difference = self._local_difference(rows, backend)
        return broadcast_first(world_of(self.model), lambda: difference)

    def _local_difference(self, rows: Sequence[TrainingRow], backend: Backend) -> str | None:
        padded, padded_norm = self._gradient(padded_batch(rows), None)
        try:
            tree, tree_norm = self._gradient(tree_batch(rows), backend)
        except (
            TypeError,
            ValueError,
            RuntimeError,
            LookupError,
        ) as exc:  # the model does not support our attention
            return f"the tree pass failed: {error_text(exc, longest=300)}"
        gap = float((tree - padded).abs().max())
        self.verification = Verification(gap, abs(tree_norm - padded_norm) / max(padded_norm, 1e-12))
        exact = _TOLERANCE.get(self.model.dtype, _ROUGH_TOLERANCE)
        allowed = exact if self.precision == "float32" else _ROUGH_TOLERANCE
        if max(self.verification) <= allowed:  # False for NaN
            return None
        return (
            f"tree and padded pass differ by {gap:.2g} in log-probs and by {self.verification.gradient_gap:.2g} in "
            f"the gradient's relative norm (allowed {allowed:g})"
        )

    def _gradient(self, batch: MicroBatch, backend: Backend | None) -> tuple[Tensor, float]:
        """Log-probs, and the gradient norm of their mean."""
        parameters = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        with torch.enable_grad(), self.prepare(batch):
            logprobs = self._logprobs(batch, backend)
            computed = gradients(logprobs.mean(), parameters, world_of(self.model))
        squares = [gradient.float().square().sum() for gradient in computed if gradient is not None]
        return logprobs.detach(), float(full_tensor(torch.stack(squares).sum()).sqrt())


def _largest_gap(ours: Tensor, theirs: Tensor) -> Tensor:
    """The largest |Δ log p| between logits ``(L, V)``."""
    gaps: Tensor = ours.float().log_softmax(-1) - theirs.float().log_softmax(-1)
    return gaps.abs().max()


class _Parts(NamedTuple):
    """How log-probs follow from tokens."""

    backbone: Any
    """None = the full model, whose logits take the place of hidden states."""
    head: Any
    """From states to logits, as for ``chosen_logprobs``."""

    def states(self, model: Any, input_ids: Tensor, arguments: Mapping[str, Any]) -> Tensor:
        """``(B, L, d)``: the last hidden states; without a backbone, logits ``(B, L, V)``."""
        if self.backbone is not None:
            hidden: Tensor = self.backbone(input_ids=input_ids, **arguments).last_hidden_state
            return hidden
        # not by calling the model, which would gather sharded weights again within a pass
        logits: Tensor = model.forward(input_ids=input_ids, **arguments).logits
        return logits


class _Layout(NamedTuple):
    """What the choice of a backend depends on."""

    tokens: int
    is_chain: bool


def _layout(batch: MicroBatch) -> _Layout:
    return _Layout(batch.input_ids.size, batch.tree is not None and len(batch.tree.starts) == 1)


def backends(device: str, tokens: int, is_chain: bool = False, *, is_half: bool = False) -> tuple[Backend, ...]:
    """The attention backends for a tree of that many tokens on a kind of device, the fastest first.

    ``is_chain``: the tree is one node. ``by_node`` is plain causal attention then, without a mask. ``is_half``:
    attention is computed in bfloat16.
    """
    if device == "cpu":
        return ("by_node", "streamed") if is_chain else ("streamed", "by_node")
    if device != "cuda" or is_chain:
        return ("by_node",)
    fast: tuple[Backend, ...] = ("flash",) if is_half else ()
    return (*fast, "flex", "by_node") if tokens > _FLEX_FROM else (*fast, "by_node")


class _Sample(NamedTuple):
    rows: list[TrainingRow]
    has_shared_prefix: bool
    """Whether their common prefix is long enough for a shared node."""


def _sample(rows: Sequence[TrainingRow]) -> _Sample:
    """Rows to verify on: the two that share most of their tokens, preferably short ones; else the shortest."""
    ordered = sorted(rows, key=lambda row: row.token_ids[: row.computed_length].astype(">i8").tobytes())
    best: tuple[bool, float] = (False, 0.0)
    sample = _Sample([min(rows, key=lambda row: row.computed_length)], has_shared_prefix=False)
    for first, second in pairwise(ordered):
        total = first.computed_length + second.computed_length
        same = common_length(first.token_ids[: first.computed_length], second.token_ids[: second.computed_length])
        value = total <= _VERIFIED_TOKENS, same / total
        if MIN_SHARED <= same < max(first.computed_length, second.computed_length) and value > best:
            best, sample = value, _Sample([first, second], has_shared_prefix=True)
    return sample


def _attend(  # noqa: PLR0917  # the registry's signature
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,  # noqa: ARG001  # some models pass it by name
    scaling: float | None = None,
    **arguments: Any,  # open-ended, as in transformers
) -> tuple[Tensor, None]:
    """Called by the registry in every layer."""
    attention: TreeAttention = arguments[ATTENTION]
    other = next((name for name in _OTHER_SCORES if arguments.get(name) is not None), None)
    if other is not None:
        raise ValueError(f"its attention uses {_OTHER_SCORES[other]}, which shared prefixes do not support")
    if torch.is_autocast_enabled(query.device.type):  # rotation may change the type of queries and keys
        kind = torch.get_autocast_dtype(query.device.type)
        query, key, value = query.to(kind), key.to(kind), value.to(kind)
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    return attention(query, key, value, scaling=scale, is_last=_is_last(module)), None


def _is_last(attention: Any) -> bool:  # attention modules of transformers have a layer index and the configuration
    layers = getattr(getattr(attention, "config", None), "num_hidden_layers", None)
    return layers is not None and getattr(attention, "layer_idx", None) == layers - 1


def _predictors(batch: MicroBatch) -> IntArray:
    """The distinct positions that predict a written token: only their last hidden state is used."""
    return np.unique(batch.predictors)


@contextmanager
def _narrow_last_layer(model: PreTrainedModel, positions: Tensor) -> Iterator[None]:
    """Makes the last layer's feed-forward part compute these positions only, with 0 for all others.

    It works token by token and is the last part, so no used number changes. A model without such a part, or with
    one that returns more than a tensor, computes it in full.
    """
    layers = getattr(backbone_of(model), "layers", None)
    part: Any = getattr(layers[-1], "mlp", None) if layers else None
    if not isinstance(part, nn.Module):
        yield
        return
    forward = part.forward
    was_overridden = "forward" in part.__dict__

    def narrow(hidden: Tensor, *arguments: Any) -> Any:
        output = forward(hidden[:, positions], *arguments)
        if not isinstance(output, Tensor):
            return forward(hidden, *arguments)
        return output.new_zeros(hidden.shape).index_copy(1, positions, output)

    part.forward = narrow
    try:
        yield
    finally:
        if was_overridden:
            part.forward = forward
        else:
            del part.forward


ALL_ATTENTION_FUNCTIONS.register(ATTENTION, _attend)
