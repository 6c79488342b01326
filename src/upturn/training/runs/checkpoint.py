"""Checkpoints: the whole state of a run in one file, from which it resumes exactly.

One file and one rename make it atomic: weights, optimiser, counters, the algorithm's state and the best weights so
far always belong together. A checkpoint holds the identity of its run (model, settings, seed, rows) and is refused
by any other; a digest of its tensors detects damage. Of several processes only rank 0 accesses the folder."""

import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path
from typing import NamedTuple

import safetensors
import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from upturn.errors import RecordError, TrainingError
from upturn.records import from_json, record, to_json
from upturn.training.distributed import (
    World,
    broadcast_first,
    digest,
    gather_tensors,
    scatter_tensor,
    weight_tensors,
)
from upturn.training.optimisation import Trainer
from upturn.training.outcome import StopReason
from upturn.training.stream import NO_STATE, State


@record
class TrainingProgress:
    """The counters of a run."""

    units: int = 0
    """Finished: iterations in reinforcement learning, optimiser steps in supervised training."""
    steps: int = 0
    """Optimiser steps."""
    last_score: float | None = None
    """Score of the latest evaluation; None = no evaluation yet."""
    best_score: float | None = None
    best_units: int | None = None
    """``units`` at the best evaluation; None = no evaluation within the limits yet."""
    evaluations_since_best: int = 0
    is_within_limits: bool = True
    """False: the latest evaluation had a cost above its limit."""
    stopped: StopReason | None = None
    """None = the run is not finished."""


@record
class _Header:
    """The metadata of the file."""

    identity: Mapping[str, str]
    progress: TrainingProgress
    digest: str
    numbers: Mapping[str, float] = field(default_factory=dict)
    """The numbers of the algorithm's state."""


class Checkpoint(NamedTuple):
    """The content of a checkpoint."""

    progress: TrainingProgress
    weights: Mapping[str, Tensor]
    optimiser: Mapping[str, Tensor]
    best: Mapping[str, Tensor]
    """The weights of the best evaluation within the limits, until then the initial ones; empty = none are
    stored."""
    algorithm: State = NO_STATE
    """The algorithm's state; empty = none, or written by an older version."""


def save_checkpoint(path: Path, identity: Mapping[str, str], checkpoint: Checkpoint, world: World | None) -> None:
    """Writes a checkpoint on rank 0, with shards gathered to whole tensors. All ranks must call it."""
    if world is None:
        write_checkpoint(path, identity, checkpoint)
        return
    state_tensors = {name: value for name, value in checkpoint.algorithm.items() if isinstance(value, Tensor)}
    whole = Checkpoint(
        checkpoint.progress,
        gather_tensors(checkpoint.weights, world),
        gather_tensors(checkpoint.optimiser, world),
        gather_tensors(checkpoint.best, world),
        {**checkpoint.algorithm, **gather_tensors(state_tensors, world)},
    )
    broadcast_first(world, lambda: write_checkpoint(path, identity, whole))


def load_checkpoint(path: Path, identity: Mapping[str, str], trainer: Trainer) -> Checkpoint | None:
    """Returns the checkpoint in the layout of the trainer's model; None = there is none.

    All ranks must call it. The algorithm's state is whole on every rank. Raises TrainingError as
    ``read_checkpoint`` does."""
    world = trainer.world
    whole: Checkpoint | None = None  # stays None on ranks > 0

    def read() -> Checkpoint | None:
        nonlocal whole
        whole = read_checkpoint(path, identity) if path.exists() else None
        return None if whole is None else whole._replace(weights={}, optimiser={}, best={})

    checkpoint = broadcast_first(world, read)
    if checkpoint is None or world is None:
        return whole
    weights = weight_tensors(trainer.model)
    source = checkpoint if whole is None else whole
    return checkpoint._replace(
        weights=_scatter(source.weights, weights.get, world),
        optimiser=_scatter(source.optimiser, trainer.parameter_of, world),
        best=_scatter(source.best, weights.get, world),
    )


def write_checkpoint(path: Path, identity: Mapping[str, str], checkpoint: Checkpoint) -> None:
    """Writes a checkpoint, durable on return; a crash before that leaves the earlier one unchanged."""
    numbers = {name: float(value) for name, value in checkpoint.algorithm.items() if not isinstance(value, Tensor)}
    state_tensors = {
        name: value.detach().clone(memory_format=torch.contiguous_format)  # may share memory with the weights
        for name, value in checkpoint.algorithm.items()
        if isinstance(value, Tensor)
    }
    tensors = {
        f"{part}.{name}": tensor
        for part, named in (
            ("weights", checkpoint.weights),
            ("optimiser", checkpoint.optimiser),
            ("best", checkpoint.best),
            ("algorithm", state_tensors),
        )
        for name, tensor in named.items()
    }
    header = to_json(_Header(identity, checkpoint.progress, digest(tensors), numbers))
    partial = path.with_name(path.name + ".partial")
    with disk_errors(partial):
        safetensors.torch.save_file(tensors, partial, metadata={"upturn": header})
        sync(partial)
    partial.replace(path)
    sync(path.parent)


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turns errors of the operating system while ``path`` is written into OSErrors with its name, and deletes it.

    safetensors has such errors, for example of a full disk, as text with their number.
    """
    try:
        yield
    except (OSError, SafetensorError) as exc:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
        number = re.search(r"\(os error (\d+)\)", str(exc))
        if isinstance(exc, OSError) or number is None:
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1])), str(path)) from exc


def read_checkpoint(path: Path, identity: Mapping[str, str]) -> Checkpoint:
    """Returns the checkpoint of a file.

    Raises TrainingError when the file is damaged, and when it belongs to another run, naming the differences.
    """
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # not a mapping
        header = from_json(_Header, metadata.get("upturn", ""))
    except (OSError, SafetensorError, RecordError) as exc:
        raise _damaged(path, str(exc)) from exc
    differing = [
        f"{name} is {identity.get(name)!r}, the checkpoint has {header.identity.get(name)!r}"
        for name in sorted(identity.keys() | header.identity.keys())
        if identity.get(name) != header.identity.get(name)
    ]
    if differing:
        raise TrainingError(
            f"checkpoint {str(path)!r} belongs to another run: {'; '.join(differing)}. "
            "Resume with what it was started with, or use another run folder"
        )
    if digest(tensors) != header.digest:
        raise _damaged(path, "its tensors do not have the digest that was written")
    parts: dict[str, dict[str, Tensor]] = {"weights": {}, "optimiser": {}, "best": {}, "algorithm": {}}
    for name, tensor in tensors.items():
        part, inner = name.split(".", 1)
        parts[part][inner] = tensor
    state: dict[str, float | Tensor] = {**header.numbers, **parts["algorithm"]}
    return Checkpoint(header.progress, parts["weights"], parts["optimiser"], parts["best"], state)


def sync(path: Path) -> None:
    """Makes a file's content, or a folder's entries, durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _scatter(whole: Mapping[str, Tensor], like: Callable[[str], Tensor | None], world: World) -> dict[str, Tensor]:
    """Rank 0's tensors on all ranks, each in the layout of ``like(name)``; None = whole."""
    names = broadcast_first(world, lambda: list(whole))
    return {name: scatter_tensor(whole.get(name), like(name), world) for name in names}


def _damaged(path: Path, reason: str) -> TrainingError:
    return TrainingError(
        f"checkpoint {str(path)!r} is damaged: {reason}. Restore the file, or delete it (and the curve next to it) "
        "to train from the start"
    )
