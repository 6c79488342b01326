"""The backends of tree attention, compared on the same trees, and the memory of a block mask.

``forward.backends`` chooses a backend by the number of tokens of a tree and by whether it branches. These figures
show from where on that choice is right: one forward and backward pass of a layer's attention, for a group of
trajectories that share a prompt (half of the tokens) and for one trajectory alone.
"""

import tracemalloc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.comparison import Bar, result, spread
from benchmarks.machine import find_device, now
from benchmarks.measurement import Bench
from upturn.errors import MeasurementError
from upturn.records import JsonValue, Result

if TYPE_CHECKING:
    from torch import Tensor

    from upturn.training.optimisation.attention import Backend
    from upturn.training.optimisation.tree import TokenTree

HEADS, GROUPS, SIZE = 14, 2, 64
"""Of Qwen2-0.5B: query heads, key-value heads and their size."""
GROUP_SIZE = 8
MASKED_TOKENS = 32_768
MASK_MEGABYTES = 64.0
_TOLERANCE = {"cpu": 1e-4, "cuda": 0.05}
"""Largest |Δ| of outputs and gradients relative to the largest value: float32 on the CPU, bfloat16 elsewhere."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Tokens of the trees, by kind of device."""

    tokens: Mapping[str, tuple[int, ...]]
    masked_tokens: int = MASKED_TOKENS


FULL = Sizes({"cpu": (1_024, 4_096), "cuda": (1_024, 2_048, 4_096, 8_192, 16_384, 32_768)})
QUICK = Sizes({"cpu": (256,), "cuda": (256,)}, masked_tokens=1_024)


def bench_attention(bench: Bench) -> tuple[list[Result], dict[str, JsonValue]]:
    """Milliseconds of each backend on each tree, and the memory of the largest block mask.

    Raises MeasurementError where backends differ by more than rounding; nothing is timed then.
    """
    import torch

    torch.set_num_threads(bench.threads)
    device, sizes = find_device() or "cpu", FULL if bench.has_bars else QUICK
    results, chosen = [], dict[str, JsonValue]()
    for tokens in sizes.tokens[device]:
        for kind, tree in (("group", _group_tree(tokens)), ("chain", _chain(tokens))):
            bench.log(f"{kind} of {tokens} tokens on {device}")
            results += _compare(bench, f"{kind}_{tokens}", tree, device)
            chosen[f"{kind}_{tokens}"] = _candidates(tree, device)[0]
    results.append(_mask_memory(bench, sizes.masked_tokens))
    return results, {"device": device, "chosen": chosen}


def _compare(bench: Bench, name: str, tree: "TokenTree", device: str) -> list[Result]:
    backends = _candidates(tree, device)
    passes = {backend: _attention_pass(tree, backend, device) for backend in backends}
    expected = passes["by_node"]()
    for backend, run in passes.items():
        gap = max(_distance(ours, theirs) for ours, theirs in zip(run(), expected, strict=True))
        if not gap <= _TOLERANCE[device]:
            raise MeasurementError(f"attention by {backend!r} differs from 'by_node' by {gap:.2g} on {name}")
    seconds: dict[str, list[float]] = {backend: [] for backend in backends}
    for _ in range(bench.repetitions):
        for backend, run in passes.items():
            started = now(device)
            run()
            seconds[backend].append(now(device) - started)
    return [
        result(f"{name}_{backend}", spread([1_000 * value for value in values]), "ms")
        for backend, values in seconds.items()
    ]


def _candidates(tree: "TokenTree", device: str) -> "Sequence[Backend]":
    from upturn.training.optimisation.forward import backends

    return backends(device, len(tree.token_ids), len(tree.starts) == 1, is_half=device != "cpu")


def _attention_pass(tree: "TokenTree", backend: "Backend", device: str) -> "Callable[[], Sequence[Tensor]]":
    """A function that returns the output and the gradients of queries, keys and values."""
    import torch

    from upturn.training.optimisation.attention import tree_attention

    generator, count = torch.Generator().manual_seed(0), len(tree.token_ids)
    dtype = torch.float32 if device == "cpu" else torch.bfloat16
    inputs = [
        torch.randn(1, heads, count, SIZE, generator=generator).to(device, dtype).requires_grad_()
        for heads in (HEADS, GROUPS, GROUPS)
    ]
    weights = torch.randn(1, count, HEADS, SIZE, generator=generator).to(device, dtype)

    def run() -> "Sequence[Tensor]":
        attention = tree_attention(tree, backend, torch.device(device))
        output = attention(*inputs, scaling=SIZE**-0.5)
        return [output.detach(), *torch.autograd.grad((output * weights).sum(), inputs)]

    return run


def _distance(ours: "Tensor", theirs: "Tensor") -> float:
    return float((ours.float() - theirs.float()).abs().max() / theirs.float().abs().max())


def _mask_memory(bench: Bench, tokens: int) -> Result:
    """Peak memory while the mask of a group is built, which includes the mask: its tensors share numpy's memory."""
    import torch

    from upturn.training.optimisation.attention import tree_attention

    tree = _group_tree(tokens)
    tracemalloc.start()
    mask = tree_attention(tree, "flex", torch.device("cpu"))
    megabytes = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    assert mask.block_mask is not None
    bar = Bar(MASK_MEGABYTES, is_upper=True) if bench.has_bars else None
    return result("mask_memory", spread([megabytes]), "MB", bar)


def _group_tree(tokens: int) -> "TokenTree":
    """A prompt of half of the tokens, and GROUP_SIZE continuations that share nothing else."""
    from upturn.training.optimisation.tree import token_tree

    prompt, suffix = tokens // 2, tokens // 2 // GROUP_SIZE
    rows = [
        np.concatenate([np.arange(prompt), prompt + member * suffix + np.arange(suffix)])
        for member in range(GROUP_SIZE)
    ]
    return token_tree(rows).tree


def _chain(tokens: int) -> "TokenTree":
    from upturn.training.optimisation.tree import token_tree

    return token_tree([np.arange(tokens)]).tree
