"""Passes of equal shape, recorded once and replayed: on CUDA one launch in place of some thousand small ones.

A decoding step of a model of 24 layers starts a thousand kernels, and on a fast device starting them takes longer
than running them. A recorded pass reads its inputs from fixed memory, into which the inputs of later passes are
copied (https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs).
"""

import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, TypeAlias, TypeVar

import torch
from torch import Tensor
from torch.utils import _pytree

from upturn.errors import error_text

_RECORDED = 32
"""Recorded passes in memory; the least recently used one is dropped."""
_VISITS = 3
"""A pass is recorded when its shape occurs this often: recording costs as much as about three passes."""

InputT = TypeVar("InputT")
Run: TypeAlias = Callable[[], Tensor]
Record: TypeAlias = Callable[[Run], Run]
"""Turns a computation on fixed inputs into one that repeats it; its result is valid until the next one."""


class _Recorded(NamedTuple):
    inputs: list[Tensor]
    """Fixed memory."""
    run: Run


class Replays:
    """The recorded passes of one backend."""

    def __init__(self, record: Record) -> None:
        self._record: Record | None = record
        self._recorded: OrderedDict[Hashable, _Recorded] = OrderedDict()
        self._visits: dict[Hashable, int] = {}

    def clear(self) -> None:
        """Drops all recorded passes; needed when memory that they use, other than their inputs, was replaced."""
        self._recorded.clear()
        self._visits.clear()

    def run(self, compute: Callable[[InputT], Tensor], inputs: InputT) -> Tensor:
        """``compute(inputs)``, replayed where a pass with inputs of the same shapes was recorded.

        ``inputs``: named tuples, lists and dicts of tensors and other values; ``compute`` must depend on tensors by
        their contents only, and always do the same operations for equal other values. The result is valid until
        the next call.
        """
        leaves, structure = _pytree.tree_flatten(inputs)
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        key = tuple((leaf.shape, leaf.dtype) if isinstance(leaf, Tensor) else repr(leaf) for leaf in leaves)
        recorded = self._recorded.get(key)
        if recorded is not None:
            self._recorded.move_to_end(key)
            torch._foreach_copy_(recorded.inputs, tensors)
            return recorded.run()
        self._visits[key] = self._visits.get(key, 0) + 1
        result = compute(inputs)
        if self._record is not None and self._visits[key] >= _VISITS:
            fixed = [leaf.clone() if isinstance(leaf, Tensor) else leaf for leaf in leaves]
            own: Any = _pytree.tree_unflatten(fixed, structure)
            try:
                run = self._record(lambda: compute(own))
            except RuntimeError as exc:
                self._record = None
                warnings.warn(
                    f"decoding steps are not recorded (slower, same result): {error_text(exc, longest=300)}",
                    RuntimeWarning,
                    stacklevel=2,
                )
                return result
            self._recorded[key] = _Recorded([leaf for leaf in fixed if isinstance(leaf, Tensor)], run)
            if len(self._recorded) > _RECORDED:
                self._recorded.popitem(last=False)
        return result


def replays_for(device: torch.device) -> Replays | None:
    """None = the device cannot record."""
    return Replays(_CudaRecorder()) if device.type == "cuda" else None


class _CudaRecorder:
    """Records with CUDA graphs, which share their memory: only the result of the last one is used."""

    def __init__(self) -> None:
        self._latest: weakref.ref[torch.cuda.CUDAGraph] | None = None

    def __call__(self, run: Run) -> Run:
        graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
        latest = None if self._latest is None else self._latest()
        pool = None if latest is None else latest.pool()  # memory of graphs that are gone cannot be shared
        stream.wait_stream(torch.cuda.current_stream())
        # not by ``torch.cuda.graph``, which empties the allocator's cache each time
        with torch.cuda.stream(stream):
            graph.capture_begin(pool=pool, capture_error_mode="thread_local")
            try:
                result = run()
            finally:
                graph.capture_end()
        torch.cuda.current_stream().wait_stream(stream)
        self._latest = weakref.ref(graph)

        def replay() -> Tensor:
            graph.replay()
            return result

        return replay
