"""Checkpoints: the state of a run between two units, from which it resumes exactly.

The folder of all checkpoints of a run holds

- ``000012/``: the state after 12 units. ``weights.safetensors`` has the trained tensors (of a LoRA model the
  adapter's, since the run's identity determines the frozen ones), ``optimiser.safetensors`` the optimiser's,
  ``algorithm.safetensors`` the algorithm's, where it has any, and ``manifest.json`` all numbers, the identity of
  the run and a digest of each file;
- ``best-000010.safetensors``: the best weights so far, shared by the checkpoints since 10 units.

A checkpoint is written as ``000012.partial`` and renamed when all its files are durable; only then are the earliest
ones deleted. A process that dies in between leaves the earlier checkpoint, and files that the next
``load_checkpoint`` deletes. A checkpoint is refused by any other run. Of several processes only rank 0 accesses the
folder."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from typing import NamedTuple

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
    trained_tensors,
)
from upturn.training.optimisation import Trainer
from upturn.training.outcome import StopReason
from upturn.training.runs.disk import PARTIAL, disk_errors, remove, remove_partial, sync
from upturn.training.stream import NO_STATE, State

_MANIFEST = "manifest.json"


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
class _File:
    """A file of tensors."""

    path: str
    """From the folder of all checkpoints."""
    digest: str
    """Of its tensors."""


@record
class _Manifest:
    """Everything of a checkpoint but its tensors."""

    identity: Mapping[str, str]
    progress: TrainingProgress
    files: Mapping[str, _File]
    """By part: ``weights``, ``optimiser``, ``algorithm``, ``best``; a part without tensors is absent."""
    numbers: Mapping[str, float] = field(default_factory=dict)
    """The numbers of the algorithm's state."""


class Checkpoint(NamedTuple):
    """The content of a checkpoint."""

    progress: TrainingProgress
    weights: Mapping[str, Tensor]
    """The trained ones."""
    optimiser: Mapping[str, Tensor]
    best: Mapping[str, Tensor]
    """The weights of the best evaluation within the limits, until then the initial ones; empty = none are
    stored."""
    algorithm: State = NO_STATE
    """The algorithm's state; empty = none."""


def save_checkpoint(
    folder: Path, identity: Mapping[str, str], checkpoint: Checkpoint, world: World | None, *, keep: int
) -> None:
    """Writes a checkpoint on rank 0, with shards gathered to whole tensors. All ranks must call it.

    ``keep``: number of checkpoints that stay, the new one included."""
    if world is None:
        write_checkpoint(folder, identity, checkpoint, keep=keep)
        return
    is_best_stored = broadcast_first(world, lambda: _stored_best(folder, checkpoint.progress) is not None)
    state_tensors = {name: value for name, value in checkpoint.algorithm.items() if isinstance(value, Tensor)}
    whole = Checkpoint(
        checkpoint.progress,
        gather_tensors(checkpoint.weights, world),
        gather_tensors(checkpoint.optimiser, world),
        {} if is_best_stored else gather_tensors(checkpoint.best, world),
        {**checkpoint.algorithm, **gather_tensors(state_tensors, world)},
    )
    broadcast_first(world, lambda: write_checkpoint(folder, identity, whole, keep=keep))


def load_checkpoint(folder: Path, identity: Mapping[str, str], trainer: Trainer, *, keep: int) -> Checkpoint | None:
    """Returns the latest checkpoint in the layout of the trainer's model; None = there is none.

    Deletes what a killed process left half-written or undeleted; ``keep`` is as in ``save_checkpoint``. All ranks
    must call it. The algorithm's state is whole on every
    rank. Raises TrainingError as ``read_checkpoint`` does."""
    world = trainer.world
    whole: Checkpoint | None = None  # stays None on ranks > 0

    def read() -> Checkpoint | None:
        nonlocal whole
        latest = latest_checkpoint(folder)
        if latest is None:
            _refuse_earlier_form(folder.parent)
        whole = None if latest is None else read_checkpoint(latest, identity)
        _clean(folder, keep)
        return None if whole is None else whole._replace(weights={}, optimiser={}, best={})

    checkpoint = broadcast_first(world, read)
    if checkpoint is None or world is None:
        return whole
    weights = trained_tensors(trainer.model)
    source = checkpoint if whole is None else whole
    return checkpoint._replace(
        weights=_scatter(source.weights, weights.get, world),
        optimiser=_scatter(source.optimiser, trainer.parameter_of, world),
        best=_scatter(source.best, weights.get, world),
    )


def write_checkpoint(folder: Path, identity: Mapping[str, str], checkpoint: Checkpoint, *, keep: int = 1) -> Path:
    """Writes a checkpoint and returns its folder, durable on return; a crash before that leaves the earlier ones.

    The best weights are not written again where the latest checkpoint has them, nor is a checkpoint that exists.
    Raises OSError naming the files that could not be written."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{checkpoint.progress.units:06d}"
    if target.exists():
        return target
    partial = folder / f"{target.name}{PARTIAL}"
    remove(partial)
    best = _stored_best(folder, checkpoint.progress) or _write_best(folder, checkpoint)
    files = {} if best is None else {"best": best}
    state_tensors = {
        name: value.detach().clone(memory_format=torch.contiguous_format)  # may share memory with the weights
        for name, value in checkpoint.algorithm.items()
        if isinstance(value, Tensor)
    }
    numbers = {name: float(value) for name, value in checkpoint.algorithm.items() if not isinstance(value, Tensor)}
    parts = {"weights": checkpoint.weights, "optimiser": checkpoint.optimiser, "algorithm": state_tensors}
    with disk_errors(partial):
        partial.mkdir()
        for part, tensors in parts.items():
            if tensors:
                _write_tensors(partial / f"{part}.safetensors", tensors)
                files[part] = _File(f"{target.name}/{part}.safetensors", digest(tensors))
        manifest = partial / _MANIFEST
        manifest.write_text(to_json(_Manifest(identity, checkpoint.progress, files, numbers)) + "\n")
        sync(manifest)
        sync(partial)
    partial.rename(target)
    sync(folder)
    _clean(folder, keep)
    return target


def latest_checkpoint(folder: Path) -> Path | None:
    """Returns the folder of the checkpoint after most units; None = there is none."""
    return next(reversed(_checkpoints(folder)), None)


def read_checkpoint(path: Path, identity: Mapping[str, str]) -> Checkpoint:
    """Returns the checkpoint of its folder.

    Raises TrainingError when it is damaged, and when it belongs to another run, naming the differences.
    """
    manifest = _read_manifest(path)
    differing = [
        f"{name} is {identity.get(name)!r}, the checkpoint has {manifest.identity.get(name)!r}"
        for name in sorted(identity.keys() | manifest.identity.keys())
        if identity.get(name) != manifest.identity.get(name)
    ]
    if differing:
        raise TrainingError(
            f"checkpoint {str(path)!r} belongs to another run: {'; '.join(differing)}. "
            "Resume with what it was started with, or use another run folder"
        )
    parts: dict[str, dict[str, Tensor]] = {}
    for part, file in manifest.files.items():
        tensors_path = path.parent / file.path
        try:
            parts[part] = safetensors.torch.load_file(tensors_path)
        except (OSError, SafetensorError) as exc:
            raise _damaged(path, f"cannot read {str(tensors_path)!r}: {exc}") from exc
        if digest(parts[part]) != file.digest:
            raise _damaged(path, f"the tensors of {file.path!r} do not have the digest that was written")
    state: dict[str, float | Tensor] = {**manifest.numbers, **parts.get("algorithm", {})}
    return Checkpoint(
        manifest.progress, parts.get("weights", {}), parts.get("optimiser", {}), parts.get("best", {}), state
    )


def _checkpoints(folder: Path) -> list[Path]:
    """The folders of all checkpoints, by units."""
    found = [path for path in folder.glob("*") if path.name.isdecimal() and path.is_dir()]
    return sorted(found, key=lambda path: int(path.name))


def _best_name(progress: TrainingProgress) -> str:
    return f"best-{progress.best_units or 0:06d}.safetensors"


def _stored_best(folder: Path, progress: TrainingProgress) -> _File | None:
    """The file of the best weights, if the latest checkpoint has it."""
    latest = latest_checkpoint(folder)
    best = None if latest is None else _read_manifest(latest).files.get("best")
    return best if best is not None and best.path == _best_name(progress) else None


def _write_best(folder: Path, checkpoint: Checkpoint) -> _File | None:
    """The file of the best weights, written; None = there are none."""
    if not checkpoint.best:
        return None
    name = _best_name(checkpoint.progress)
    partial = folder / f"{name}{PARTIAL}"
    with disk_errors(partial):
        _write_tensors(partial, checkpoint.best)
        partial.rename(folder / name)
    return _File(name, digest(checkpoint.best))


def _write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    safetensors.torch.save_file(dict(tensors), path)
    sync(path)


def _read_manifest(path: Path) -> _Manifest:
    try:
        return from_json(_Manifest, (path / _MANIFEST).read_text())
    except (OSError, UnicodeDecodeError, RecordError) as exc:
        raise _damaged(path, f"cannot read {_MANIFEST}: {exc}") from exc


def _clean(folder: Path, keep: int) -> None:
    """Deletes all but the latest ``keep`` checkpoints, half-written files, and best weights that none has."""
    remove_partial(folder)
    for earlier in _checkpoints(folder)[:-keep]:
        earlier.rename(earlier.with_name(earlier.name + PARTIAL))  # a crash leaves all of it, or nothing to read
    remove_partial(folder)
    with suppress(TrainingError):  # a damaged checkpoint, which is reported when it is read
        used = {file.path for path in _checkpoints(folder) for file in _read_manifest(path).files.values()}
        for best in folder.glob("best-*.safetensors"):
            if best.name not in used:
                remove(best)


def _refuse_earlier_form(run_folder: Path) -> None:
    single = run_folder / "checkpoint.safetensors"
    if single.exists():
        raise TrainingError(
            f"checkpoint {str(single)!r} is of an earlier version, which kept a run in one file; this version "
            "cannot resume it. Finish the run with that version, use another run folder, or delete the file to "
            "train from the start"
        )


def _scatter(whole: Mapping[str, Tensor], like: Callable[[str], Tensor | None], world: World) -> dict[str, Tensor]:
    """Rank 0's tensors on all ranks, each in the layout of ``like(name)``; None = whole."""
    names = broadcast_first(world, lambda: list(whole))
    return {name: scatter_tensor(whole.get(name), like(name), world) for name in names}


def _damaged(path: Path, reason: str) -> TrainingError:
    return TrainingError(
        f"checkpoint {str(path)!r} is damaged: {reason}. Restore it, or delete its folder to resume from an "
        "earlier checkpoint, or from the start where there is none"
    )
