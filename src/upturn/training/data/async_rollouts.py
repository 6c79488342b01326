"""Sampling during training: an iteration's groups are sampled with weights that are a few iterations old.

Iteration i is sampled with exactly the weights after max(0, i − staleness) iterations, regardless of timing: a
thread samples ahead with these weights while the trainer updates its own. So a run repeats bit for bit; the weights
for future iterations are part of its state. The recorded log-probs are those of the sampling weights, so the loss
corrects for the difference as it does within an iteration.

Not covered: a limit on cores. Two threads compute at the same time; give each its share."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import NamedTuple, Self, TypeAlias

import torch
from torch import Tensor
from transformers import PreTrainedModel

from upturn.errors import TrainingError
from upturn.models.engine import weights_hash
from upturn.training.advantage import ScoredGroup
from upturn.training.distributed import copy_tensors, trained_tensors, world_of
from upturn.training.stream import State

SampleWith: TypeAlias = Callable[[int, Mapping[str, Tensor]], Sequence[ScoredGroup]]
"""``(iteration, weights)`` to the iteration's groups, sampled with these weights. Is called in another thread, in
the order of the iterations, one call at a time; may depend on its arguments and the seed only."""


class _Snapshot(NamedTuple):
    """The weights after an iteration."""

    tensors: Mapping[str, Tensor]
    version: str
    """Their hash."""


class AheadCollect:
    """A ``Collect`` that samples ahead in a thread. Single use; a context manager, which ends the thread."""

    def __init__(self, model: PreTrainedModel, sample: SampleWith, *, staleness: int, iterations: int) -> None:
        """``model``: the trained one. ``staleness``: at least 1."""
        if staleness < 1:
            raise TrainingError(
                f"staleness must be at least 1 to sample ahead, got {staleness!r}; to sample with the present "
                "weights, collect them directly"
            )
        if iterations < 1:
            raise TrainingError(f"iterations must be at least 1, got {iterations!r}")
        if world_of(model) is not None:
            raise TrainingError(
                f"staleness={staleness!r} samples in a thread while the model is trained, which shards of several "
                "processes cannot: train in one process, or collect without staleness"
            )
        self.staleness = staleness
        self._model = model
        self._sample = sample
        self._iterations = iterations
        self._snapshots: dict[int, _Snapshot] = {}
        """By the number of iterations done; the weights that future iterations are sampled with."""
        self._sampled: dict[int, Future[Sequence[ScoredGroup]]] = {}
        self._iteration = 0
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="upturn-sampler")

    def __call__(self, iteration: int, /) -> Sequence[ScoredGroup]:
        """Returns the groups of the iteration, and starts sampling all iterations that the present weights allow.

        Must be called for each iteration in order, after the steps of the previous ones. Raises errors of sampling,
        and TrainingError for trajectories that were sampled with other weights.
        """
        self._snapshots[iteration] = _Snapshot(
            copy_tensors(trained_tensors(self._model)), weights_hash(self._model)
        )
        for ahead in range(iteration, min(iteration + self.staleness + 1, self._iterations)):
            if ahead not in self._sampled:
                self._sampled[ahead] = self._thread.submit(self._sample, ahead, self._weights_of(ahead))
        groups = self._sampled.pop(iteration).result()
        self._iteration = iteration
        self._check(groups, iteration)
        oldest = iteration + 1 - self.staleness
        self._snapshots = {done: snapshot for done, snapshot in self._snapshots.items() if done >= oldest}
        return groups

    def state(self) -> State:
        """Returns the weights that future iterations are sampled with, except the present ones, and their
        hashes."""
        state: dict[str, Tensor] = {}
        for done, snapshot in self._snapshots.items():
            state[f"{done}.version"] = torch.frombuffer(bytearray.fromhex(snapshot.version), dtype=torch.uint8)
            state |= {f"{done}.weights.{name}": tensor for name, tensor in snapshot.tensors.items()}
        return state

    def load_state(self, state: State) -> None:
        """Restores a state from ``state``; iterations that were being sampled are sampled again."""
        tensors: dict[int, dict[str, Tensor]] = {}
        versions: dict[int, str] = {}
        for name, value in state.items():
            done, _, rest = name.partition(".")
            assert isinstance(value, Tensor)
            if rest == "version":
                versions[int(done)] = bytes(value.tolist()).hex()
            else:
                tensors.setdefault(int(done), {})[rest.removeprefix("weights.")] = value
        self._snapshots = {done: _Snapshot(tensors[done], version) for done, version in versions.items()}

    def metrics(self) -> Mapping[str, float]:
        """Returns ``staleness``: the age of the sampling weights in iterations."""
        return {"staleness": float(min(self._iteration, self.staleness))}

    def identity(self) -> Mapping[str, object]:
        """Returns the staleness."""
        return {"staleness": self.staleness}

    def close(self) -> None:
        """Ends the thread after the current iteration. May be called twice."""
        self._thread.shutdown(wait=True, cancel_futures=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _weights_of(self, iteration: int) -> Mapping[str, Tensor]:
        done = max(0, iteration - self.staleness)
        if done not in self._snapshots:
            raise TrainingError(
                f"iteration {iteration} is to be sampled with the weights after {done} iterations, which are "
                "missing; a resumed run needs the state of its checkpoint"
            )
        return self._snapshots[done].tensors

    def _check(self, groups: Sequence[ScoredGroup], iteration: int) -> None:
        """Raises TrainingError for trajectories of other weights, newer ones included, which would make the run
        depend on timing. A trajectory that ended before its first generation has neither rows nor a version."""
        done = max(0, iteration - self.staleness)
        expected = self._snapshots[done].version
        for trajectory in (member.trajectory for group in groups for member in group.members):
            version = trajectory.model_version
            if version != expected and (version or trajectory.rows):
                shown = f"weights {version!r}" if version else "weights of unknown version"
                raise TrainingError(
                    f"trajectory {trajectory.id!r} of iteration {iteration} was sampled with {shown}; with "
                    f"staleness={self.staleness} its model_version must be that of the weights after {done} "
                    f"iterations, {expected!r}. Load the weights of the call, and refresh the sampling engine "
                    "afterwards"
                )
