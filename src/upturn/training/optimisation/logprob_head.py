"""Outputs from hidden states: log-probabilities of given tokens without holding all logits, or a critic's values.

Letters: U predictions, d hidden size, V vocabulary, C predictions of one chunk.
"""

from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint


class Read(Protocol):
    """A number at each position that predicts a target."""

    def __call__(self, head: Any, hidden: Tensor, targets: Tensor, *, temperatures: Tensor | None = None) -> Tensor:
        """``(U,)`` in float32, with gradient, from hidden states ``(U, d)`` and targets ``(U,)``.

        ``temperatures``: ``(U,)``, of the policy; None = 1.
        """


CHUNK_NUMBERS = 1 << 23
"""Logits per chunk: 32 MB of float32. Smaller chunks make matrix products slow; larger ones exceed the cache and
increase memory."""
_DEVICE_CHUNKS = 8
"""Chunks at once on an accelerator, which small products would leave idle."""
KEPT_NUMBERS = 1 << 26
"""Probabilities kept for the backward pass, 256 MB of float32; the rest is recomputed, which makes the head a
quarter slower."""


def chosen_logprobs(
    head: Any,
    hidden: Tensor,
    targets: Tensor,
    *,
    temperatures: Tensor | None = None,
    chunk_numbers: int = CHUNK_NUMBERS,
) -> Tensor:
    """``(U,)``: log p of each target, in float32, from ``(U, d)`` hidden states; p is the softmax of the logits
    divided by the temperatures ``(U,)``; None = by 1.

    A plain linear layer is computed and differentiated chunk by chunk; any other head, such as one with an adapter
    or one that scales or caps logits, runs under activation checkpointing. The backward pass can be run once.
    """
    return _read(head, hidden, targets, temperatures, chunk_numbers=chunk_numbers, has_entropy=False)[0]


def logprobs_and_entropies(
    head: Any,
    hidden: Tensor,
    targets: Tensor,
    *,
    temperatures: Tensor | None = None,
    chunk_numbers: int = CHUNK_NUMBERS,
) -> Tensor:
    """``(2, U)``: the log-probs of ``chosen_logprobs``, and the entropy −Σ p log p of each p in nats, with
    gradient.

    Holds no more logits or probabilities than without the entropies, except for one more chunk at a time.
    """
    read = _read(head, hidden, targets, temperatures, chunk_numbers=chunk_numbers, has_entropy=True)
    return torch.stack(read)


def _read(
    head: Any,
    hidden: Tensor,
    targets: Tensor,
    temperatures: Tensor | None,
    *,
    chunk_numbers: int,
    has_entropy: bool,
) -> tuple[Tensor, ...]:
    """Log-probs, and entropies if asked for; ``(U,)`` each."""
    chunks = 1 if hidden.device.type == "cpu" else _DEVICE_CHUNKS
    if isinstance(head, Logits):
        return _plain_read(head, hidden, targets, temperatures, has_entropy)
    weight: Any = head.weight  # every output layer of transformers has one, adapters forward it
    rows = max(1, chunks * chunk_numbers // len(weight))
    bias: Tensor | None = getattr(head, "bias", None)
    if type(head) is nn.Linear and bias is None and not head._forward_hooks:
        apply: Callable[..., tuple[Tensor, ...]] = _ChosenLogprobs.apply  # untyped in torch
        return apply(hidden, weight, targets, temperatures, rows, has_entropy)
    parts = [
        checkpoint(
            _plain_read,
            head,
            hidden[part],
            targets[part],
            None if temperatures is None else temperatures[part],
            has_entropy,
            use_reentrant=False,
        )
        for part in _chunks(len(hidden), rows)
    ]
    return tuple(map(torch.cat, zip(*parts, strict=True)))


class Logits:
    """The head of a model whose states are logits already."""

    def __call__(self, logits: Tensor) -> Tensor:
        """The logits."""
        return logits


def state_values(
    head: Any,
    hidden: Tensor,
    targets: Tensor,  # noqa: ARG001  # a ``Read``
    *,
    temperatures: Tensor | None = None,  # noqa: ARG001  # as above
) -> Tensor:
    """``(U,)``: the output of a scalar head, in float32 also under autocast (differences of values are small).

    Independent of the targets: a value is of the state before a token.
    """
    with torch.autocast(hidden.device.type, enabled=False):
        output: Tensor = head(hidden.float())
    return output.sum(dim=1)  # of one number; FSDP2 warns of views


def _plain_read(  # noqa: PLR0917  # checkpointing passes arguments by position
    head: Any, hidden: Tensor, targets: Tensor, temperatures: Tensor | None, has_entropy: bool
) -> tuple[Tensor, ...]:
    logits = head(hidden).float()
    if temperatures is not None:
        logits = logits / temperatures[:, None]
    logprobs = -nn.functional.cross_entropy(logits, targets, reduction="none")
    if not has_entropy:
        return (logprobs,)
    return logprobs, torch.special.entr(logits.softmax(dim=1)).sum(dim=1)


class _ChosenLogprobs(torch.autograd.Function):
    """hidden (U, d), weight (V, d), targets (U,), temperatures (U,) or None -> log-probs, and entropies; (U,)
    each."""

    @staticmethod
    def forward(  # noqa: PLR0913, PLR0917  # autograd passes arguments by position
        ctx: Any,  # autograd's context is open-ended
        hidden: Tensor,
        weight: Tensor,
        targets: Tensor,
        temperatures: Tensor | None,
        rows: int,
        has_entropy: bool,
    ) -> tuple[Tensor, ...]:
        hidden, weight = _autocast(hidden), _autocast(weight)
        log_sums = torch.empty(len(hidden), dtype=torch.float32, device=hidden.device)
        chosen, entropies = torch.empty_like(log_sums), torch.empty_like(log_sums if has_entropy else log_sums[:0])
        kept: list[Tensor] = []
        free = KEPT_NUMBERS if any(ctx.needs_input_grad) else 0
        for part in _chunks(len(hidden), rows):
            logits = (hidden[part] @ weight.T).float()
            if temperatures is not None:
                logits.div_(temperatures[part, None])
            chosen[part] = logits.gather(1, targets[part, None])[:, 0]
            log_sums[part] = _softmax_(logits)
            if has_entropy:
                entropies[part] = torch.special.entr(logits).sum(dim=1)
            if logits.numel() <= free:
                free -= logits.numel()
                kept.append(logits)
            else:
                free = 0  # only a prefix of the chunks is kept
        ctx.save_for_backward(hidden, weight, targets, log_sums, entropies, temperatures)
        ctx.rows, ctx.kept = rows, kept
        return (chosen - log_sums, entropies) if has_entropy else (chosen - log_sums,)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight, targets, log_sums, entropies, temperatures = ctx.saved_tensors
        gradient = gradients[0]
        d_hidden = torch.empty_like(hidden)
        is_trained = ctx.needs_input_grad[1]  # False where only an adapter is trained
        d_weight = torch.zeros(weight.shape, dtype=torch.float32, device=weight.device) if is_trained else None
        kept, ctx.kept = ctx.kept, []
        for index, part in enumerate(_chunks(len(hidden), ctx.rows)):
            if index < len(kept):
                probabilities = kept[index]
            else:
                logits = (hidden[part] @ weight.T).float()
                if temperatures is not None:
                    logits.div_(temperatures[part, None])
                probabilities = logits.sub_(log_sums[part, None]).exp_()
            above, chosen = gradient[part, None], targets[part, None]
            # d log p[target] / d logits = 1[target] − p;  d entropy / d logits = −p (log p + entropy)
            if len(gradients) > 1:
                bonus = gradients[1][part, None]
                surprise = torch.special.entr(probabilities).mul_(bonus)
                changes = probabilities.mul_(-above - bonus * entropies[part, None]).add_(surprise)
            else:
                changes = probabilities.mul_(-above)
            changes.scatter_add_(1, chosen, above)
            if temperatures is not None:
                changes.div_(temperatures[part, None])
            d_logits = changes.to(weight.dtype)
            torch.mm(d_logits, weight, out=d_hidden[part])
            if d_weight is not None:
                _add_product_(d_weight, d_logits.T, hidden[part])
        return d_hidden, d_weight, None, None, None, None


def _chunks(count: int, rows: int) -> list[slice]:
    return [slice(start, start + rows) for start in range(0, count, rows)]


def _softmax_(logits: Tensor) -> Tensor:
    """``(C,)``: the log-sum-exp of ``(C, V)`` logits, which become their softmax."""
    largest = logits.max(dim=1, keepdim=True).values
    total = logits.sub_(largest).exp_().sum(dim=1, keepdim=True)
    logits.div_(total)
    return total.log_().add_(largest)[:, 0]


def _add_product_(total: Tensor, left: Tensor, right: Tensor) -> None:
    """Adds ``left @ right``, of any type, to a float32 total."""
    if left.dtype == total.dtype:
        total.addmm_(left, right)
    else:
        total.add_(left @ right)


def _autocast(values: Tensor) -> Tensor:
    """The values in autocast's type, where that is enabled."""
    kind = values.device.type
    return values.to(torch.get_autocast_dtype(kind)) if torch.is_autocast_enabled(kind) else values
