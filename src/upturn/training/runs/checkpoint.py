"""Checkpoints: all that a run needs to go on exactly as if it had not stopped, in one file.

One file and one rename make it atomic: weights, optimiser, counters, what the algorithm remembers and the best
weights so far always belong together. A checkpoint carries what it belongs to (model, settings, seed, rows) and is
refused by anything else; it carries a digest of its tensors, so damage is found before it is trained on. Of several
processes the first writes it and reads it; the others need not see the folder.
"""

import os
from collections.abc import Callable, Mapping
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
    """How far a run is."""

    units: int = 0
    """Finished: iterations in reinforcement learning, optimiser steps in supervised training."""
    steps: int = 0
    """Of the optimiser."""
    last_score: float | None = None
    """Of the latest evaluation; None = there was none."""
    best_score: float | None = None
    best_units: int | None = None
    """``units`` when the best evaluation was made; None = there was none."""
    evaluations_since_best: int = 0
    is_within_limits: bool = True
    """False: the latest evaluation found a cost above its limit."""
    stopped: StopReason | None = None
    """None = the run is not done."""


@record
class _Header:
    """What the file says beside its tensors."""

    identity: Mapping[str, str]
    progress: TrainingProgress
    digest: str
    numbers: Mapping[str, float] = field(default_factory=dict)
    """Those of the algorithm's state; its tensors stand in the file."""


class Checkpoint(NamedTuple):
    """The content of a checkpoint."""

    progress: TrainingProgress
    weights: Mapping[str, Tensor]
    optimiser: Mapping[str, Tensor]
    best: Mapping[str, Tensor]
    """The weights of the best evaluation that broke no limit, or until there is one those from before training;
    empty = none are kept."""
    algorithm: State = NO_STATE
    """What the algorithm remembers; empty = nothing, or written before algorithms could."""


def save_checkpoint(path: Path, identity: Mapping[str, str], checkpoint: Checkpoint, world: World | None) -> None:
    """As ``write_checkpoint``, of shards: whole in the first process, which writes. All must call it."""
    if world is None:
        write_checkpoint(path, identity, checkpoint)
        return
    remembered = {name: value for name, value in checkpoint.algorithm.items() if isinstance(value, Tensor)}
    whole = Checkpoint(
        checkpoint.progress,
        gather_tensors(checkpoint.weights, world),
        gather_tensors(checkpoint.optimiser, world),
        gather_tensors(checkpoint.best, world),
        {**checkpoint.algorithm, **gather_tensors(remembered, world)},
    )
    broadcast_first(world, lambda: write_checkpoint(path, identity, whole))


def load_checkpoint(path: Path, identity: Mapping[str, str], trainer: Trainer) -> Checkpoint | None:
    """What ``save_checkpoint`` wrote, in the layout of the trainer's model; None = there is none.

    All must call it. What the algorithm remembers is whole in every process. Raises TrainingError as
    ``read_checkpoint`` does.
    """
    world = trainer.world
    held: Checkpoint | None = None

    def read() -> Checkpoint | None:
        nonlocal held
        held = read_checkpoint(path, identity) if path.exists() else None
        return None if held is None else held._replace(weights={}, optimiser={}, best={})

    found = broadcast_first(world, read)
    if found is None or world is None:
        return held
    own = weight_tensors(trainer.model)
    whole = Checkpoint(found.progress, {}, {}, {}) if held is None else held
    return found._replace(
        weights=_spread(whole.weights, own.get, world),
        optimiser=_spread(whole.optimiser, trainer.parameter_of, world),
        best=_spread(whole.best, own.get, world),
    )


def write_checkpoint(path: Path, identity: Mapping[str, str], checkpoint: Checkpoint) -> None:
    """Durable when it returns; a crash before that leaves the earlier checkpoint as it was."""
    numbers = {name: float(value) for name, value in checkpoint.algorithm.items() if not isinstance(value, Tensor)}
    remembered = {
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
            ("algorithm", remembered),
        )
        for name, tensor in named.items()
    }
    header = to_json(_Header(identity, checkpoint.progress, digest(tensors), numbers))
    partial = path.with_name(path.name + ".partial")
    safetensors.torch.save_file(tensors, partial, metadata={"upturn": header})
    sync(partial)
    partial.replace(path)
    sync(path.parent)


def read_checkpoint(path: Path, identity: Mapping[str, str]) -> Checkpoint:
    """The checkpoint that was written there.

    Raises TrainingError when the file is damaged, and when it belongs to another run, naming what differs.
    """
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # not a mapping
        header = from_json(_Header, metadata.get("upturn", ""))
    except (OSError, SafetensorError, RecordError) as exc:
        raise TrainingError(f"{_damaged(path)}: {exc}. {_CURE}") from exc
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
        raise TrainingError(f"{_damaged(path)}: its tensors do not have the digest that was written. {_CURE}")
    parts: dict[str, dict[str, Tensor]] = {"weights": {}, "optimiser": {}, "best": {}, "algorithm": {}}
    for name, tensor in tensors.items():
        part, inner = name.split(".", 1)
        parts[part][inner] = tensor
    remembered: dict[str, float | Tensor] = {**header.numbers, **parts["algorithm"]}
    return Checkpoint(header.progress, parts["weights"], parts["optimiser"], parts["best"], remembered)


def sync(path: Path) -> None:
    """Makes a file's content, or a folder's entries, durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _spread(whole: Mapping[str, Tensor], like: Callable[[str], Tensor | None], world: World) -> dict[str, Tensor]:
    """The first process's tensors in all of them, each in the layout of ``like(name)``; None = whole."""
    names = broadcast_first(world, lambda: list(whole))
    return {name: scatter_tensor(whole.get(name), like(name), world) for name in names}


_CURE = "Restore the file, or delete it (and the curve beside it) to train from the start"


def _damaged(path: Path) -> str:
    return f"checkpoint {str(path)!r} is damaged"
