"""Sampling while training: the groups of an iteration come from weights that are a few iterations old.

Iteration i is sampled with exactly the weights after max(0, i − staleness) iterations, whatever is fast or slow: a
thread samples ahead with these weights while the trainer goes on with its own. So a run repeats itself bit for bit,
and the weights that iterations to come are still to be sampled with belong to its state. The recorded log-probs are
those of the weights that sampled, so the loss corrects for the difference as it does within an iteration.

Not covered: staying below a number of cores. Two threads compute at the same time; give each its share.
"""

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
from upturn.training.distributed import copy_tensors, weight_tensors, world_of
from upturn.training.stream import State

SampleWith: TypeAlias = Callable[[int, Mapping[str, Tensor]], Sequence[ScoredGroup]]
"""``(iteration, weights)`` to the iteration's groups, sampled with these weights. Called in another thread, in the
order of the iterations, one call at a time; may depend on its arguments and the seed only."""


class _Snapshot(NamedTuple):
    """The weights after so many iterations."""

    tensors: Mapping[str, Tensor]
    version: str
    """Their hash."""


class AheadCollect:
    """A ``Collect`` that samples ahead. Single use; a context manager, since its thread has to end."""

    def __init__(self, model: PreTrainedModel, sample: SampleWith, *, staleness: int, iterations: int) -> None:
        """``model``: the one that is trained. ``staleness``: at least 1, else there is nothing to overlap."""
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
        """By the number of iterations done; those that iterations to come are sampled with."""
        self._sampled: dict[int, Future[Sequence[ScoredGroup]]] = {}
        self._iteration = 0
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="upturn-sampler")

    def __call__(self, iteration: int, /) -> Sequence[ScoredGroup]:
        """The groups of the iteration, from the thread; starts what the present weights allow to be started.

        Iterations are asked for in order, each with the weights that the ones before it left. Raises what sampling
        raised, and TrainingError for trajectories that were sampled with other weights than these.
        """
        self._snapshots[iteration] = _Snapshot(copy_tensors(weight_tensors(self._model)), weights_hash(self._model))
        for ahead in range(iteration, min(iteration + self.staleness + 1, self._iterations)):
            if ahead not in self._sampled:
                self._sampled[ahead] = self._thread.submit(self._sample, ahead, self._weights_of(ahead))
        groups = self._sampled.pop(iteration).result()
        self._iteration = iteration
        self._check(groups, iteration)
        for done in [each for each in self._snapshots if each < iteration + 1 - self.staleness]:
            del self._snapshots[done]
        return groups

    def state(self) -> State:
        """The weights that iterations to come are sampled with, present ones left out; their hashes as bytes."""
        found: dict[str, Tensor] = {}
        for done, snapshot in self._snapshots.items():
            found[f"{done}.version"] = torch.frombuffer(bytearray.fromhex(snapshot.version), dtype=torch.uint8)
            found |= {f"{done}.weights.{name}": tensor for name, tensor in snapshot.tensors.items()}
        return found

    def load_state(self, state: State) -> None:
        """Goes back to what ``state`` gave; what was being sampled is sampled again when it is asked for."""
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
        """``staleness``: how many iterations old the weights were."""
        return {"staleness": float(min(self._iteration, self.staleness))}

    def identity(self) -> Mapping[str, object]:
        """What decides which weights sample."""
        return {"staleness": self.staleness}

    def close(self) -> None:
        """Ends the thread, after what it is sampling at the moment. Closing twice is fine."""
        self._thread.shutdown(wait=True, cancel_futures=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _weights_of(self, iteration: int) -> Mapping[str, Tensor]:
        done = max(0, iteration - self.staleness)
        found = self._snapshots.get(done)
        if found is None:
            raise TrainingError(
                f"iteration {iteration} is to be sampled with the weights after {done} iterations, which are not "
                "there; a run that is resumed needs the state that its checkpoint holds"
            )
        return found.tensors

    def _check(self, groups: Sequence[ScoredGroup], iteration: int) -> None:
        """Refuses trajectories of any other weights than those promised, newer ones included: which of them come
        would depend on what is fast, and no run would repeat itself. An attempt that ended before its model was
        asked has neither rows nor version."""
        done = max(0, iteration - self.staleness)
        promised = self._snapshots[done].version
        for trajectory in (member.trajectory for group in groups for member in group.members):
            version = trajectory.model_version
            if version != promised and (version or trajectory.rows):
                shown = f"weights {version!r}" if version else "weights that it does not name"
                raise TrainingError(
                    f"trajectory {trajectory.id!r} of iteration {iteration} was sampled with {shown}; with "
                    f"staleness={self.staleness} they must be those after {done} iterations, {promised!r}, and "
                    "stand in its model_version. Set the weights that are given, and refresh the engine that "
                    "samples after that"
                )
