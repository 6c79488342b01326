"""Model folders of trained versions, which the ``from_pretrained`` of transformers loads."""

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import torch
from transformers import PreTrainedModel
from transformers.utils import logging as transformers_logging

from upturn.errors import ModelError, TrainingError
from upturn.models import CARD
from upturn.models.engine import auto_class, freeze_other_parts, weights_hash
from upturn.training.distributed import weight_tensors, world_of
from upturn.training.optimisation import merge_adapter
from upturn.training.runs.disk import disk_errors, sync
from upturn.training.runs.run_folder import MARKER

Stored = Literal["float32", "bfloat16"]
_DTYPES: Mapping[Stored, torch.dtype] = {"float32": torch.float32, "bfloat16": torch.bfloat16}
_WEIGHT_FILES = (
    "*.safetensors",
    "*.safetensors.index.json",
    "*.bin",
    "config.json",
    "generation_config.json",
    MARKER,
    CARD,
)
"""Files that describe one model's weights, and are not copied to another model's folder."""


def save_version(
    model: PreTrainedModel, folder: Path, *, stored: Stored = "float32", companions: Path | None = None
) -> str:
    """Writes the model as a new folder, atomically, and returns the hash of its weights as loaded (in float32).

    An adapter is merged into the written weights. ``bfloat16`` halves the files and rounds the weights, so evaluate
    the loaded model. ``companions``: a folder whose other files (such as the tokenizer) are copied; None = no
    files. Saving the same weights again is a no-op; raises TrainingError when ``folder`` has other content, and for
    a sharded model."""
    partial = _write_partial(model, folder, stored, companions)
    saved = weights_hash(_load(partial))
    if folder.exists():
        shutil.rmtree(partial)
        if _read_hash(folder) == saved:
            return saved
        raise TrainingError(f"folder {str(folder)!r} exists and holds something else; name a new folder")
    _complete(partial, folder, {"weights_hash": saved, "stored": stored})
    return saved


def write_model(model: PreTrainedModel, folder: Path, *, stored: Stored, companions: Path | None = None) -> None:
    """Writes the model as a folder, atomically, for a sampler that loads it at once; replaces what is there.

    As ``save_version``, but the files are not loaded again to hash them: the caller names the weights by their hash
    before they are rounded to ``stored``.
    """
    partial = _write_partial(model, folder, stored, companions)
    shutil.rmtree(folder, ignore_errors=True)
    _complete(partial, folder, {"stored": stored})


def _write_partial(model: PreTrainedModel, folder: Path, stored: Stored, companions: Path | None) -> Path:
    """The files of the folder in one next to it."""
    if world_of(model) is not None:
        raise TrainingError(
            "the model is sharded, and each process has its own shard only: save the model of its FullCopy, "
            "refreshed, on rank 0"
        )
    partial = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    whole = merge_adapter(model)
    writer: Any = whole  # save_pretrained accepts more than its types allow
    tensors = {name: tensor.to(_DTYPES[stored]) for name, tensor in weight_tensors(whole).items()}
    with no_progress_bars(), disk_errors(partial):
        writer.save_pretrained(partial, state_dict=tensors)
        if companions is not None:
            _copy_companions(companions, partial)
    return partial


def _complete(partial: Path, folder: Path, marker: Mapping[str, Any]) -> None:
    """Makes the partial folder the folder, durably."""
    (partial / MARKER).write_text(json.dumps(dict(marker)) + "\n")
    for file in (*partial.iterdir(), partial):
        sync(file)
    partial.rename(folder)
    sync(folder.parent)


def publish_folder(
    folder: Path,
    write: Callable[[Path], None],
    *,
    identity: Callable[[Path], str],
    marker: Mapping[str, Any],
    companions: Path | None,
) -> str:
    """Writes the new folder of a model with another head atomically; returns its ``identity``, the hash of its
    weights as loaded.

    ``marker``: stored with that hash. ``companions``: as for ``save_version``. Where the folder exists with the
    same marker, nothing changes; raises TrainingError when it has other content."""
    partial = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    with disk_errors(partial):
        write(partial)
        if companions is not None:
            _copy_companions(companions, partial)
    whole = {"weights_hash": identity(partial), **marker}
    if not folder.exists():
        _complete(partial, folder, whole)
    else:
        shutil.rmtree(partial)
        if not (folder / MARKER).is_file() or json.loads((folder / MARKER).read_text()) != whole:
            raise TrainingError(f"folder {str(folder)!r} exists and holds something else; name a new folder")
    return str(whole["weights_hash"])


def stored_type(folder: Path) -> Stored:
    """The data type of a model folder's weights by its ``config.json``; float32 where it names neither."""
    try:
        config = json.loads((folder / "config.json").read_text())
    except (OSError, ValueError):
        return "float32"
    name = config.get("dtype") or config.get("torch_dtype")
    return "bfloat16" if name == "bfloat16" else "float32"


def load_version(folder: Path) -> PreTrainedModel:
    """Returns the model of a folder that ``save_version`` wrote, in float32.

    Raises ModelError when files are missing or damaged, or the weights are not the saved ones.
    """
    expected = _read_hash(folder)
    if expected is None:
        state = "damaged" if (folder / MARKER).exists() else "missing"
        raise ModelError(
            f"{str(folder / MARKER)!r} is {state}, so the folder's weights cannot be checked; "
            "train again, or restore the folder"
        )
    model = _load(folder)
    actual = weights_hash(model)
    if actual != expected:
        raise ModelError(
            f"the weights in {str(folder)!r} have hash {actual}, saved was {expected}; train again, or restore it"
        )
    return model


def _load(folder: Path) -> PreTrainedModel:
    try:
        with no_progress_bars():
            model: PreTrainedModel = auto_class(folder).from_pretrained(
                folder, dtype=torch.float32, local_files_only=True
            )
    except Exception as exc:  # a damaged folder raises many kinds of errors in the libraries
        raise ModelError(f"cannot load {str(folder)!r}: {exc}; train again, or restore the folder") from exc
    return freeze_other_parts(model)


@contextmanager
def no_progress_bars() -> Iterator[None]:
    """Hides the progress bars of transformers."""
    is_shown = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        if is_shown:
            transformers_logging.enable_progress_bar()


def _copy_companions(source: Path, target: Path) -> None:
    for file in sorted(source.iterdir()):
        if file.is_file() and not any(file.match(pattern) for pattern in _WEIGHT_FILES):
            shutil.copyfile(file, target / file.name)


def _read_hash(folder: Path) -> str | None:
    """The hash in the folder's marker file; None = unreadable."""
    try:
        return str(json.loads((folder / MARKER).read_text())["weights_hash"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
