"""Hand-over of weights to a sampler elsewhere, as a folder that is named after their hash.

The hash is the version: every generation, and so every trajectory, carries it, and ``AheadCollect`` compares it
with the weights that were promised. A checkpoint folder is one that ``save_version`` or ``write_model`` wrote; an
adapter folder has PEFT's format, without the base model's weights. A folder is complete or absent. Only folders
that the sampler may still read are retained; what a killed run left is removed with the next hand-over.
"""

import asyncio
import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from upturn.errors import ModelError, TrainingError
from upturn.models import RemoteEngine, WeightsForm

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from upturn.training.runs import Stored

_WEIGHTS_FOLDER = re.compile(r"(\.)?(?P<version>[0-9a-f]{32})(\.partial)?")
"""Format of ``weights_hash``, and of a folder that is not complete."""


class WeightSync:
    """Hands weights over to one sampler. Not thread-safe."""

    def __init__(
        self,
        load: Callable[[Path, str], None],
        folder: Path,
        *,
        form: WeightsForm = "checkpoint",
        stored: "Stored | None" = None,
        unload: Callable[[str], None] | None = None,
        retained: int = 1,
    ) -> None:
        """``load``: loads the weights in a folder into the sampler, which has no requests in progress. ``folder``:
        holds the folders of weights, has the same path for the sampler, and belongs to this object alone, which
        removes older ones. ``form``: whole models, into which an adapter is merged, or adapters. ``stored``: data
        type of whole models' files; None means float32, and the files are loaded once to check that they have the
        same hash. ``unload``: unloads weights that a killed run may have left in the sampler; None means that the
        next weights replace them. ``retained``: newest folders that the sampler may still load from.
        """
        self._load = load
        self._unload = unload
        self._folder = folder.absolute()
        self._form = form
        self.stored = stored
        self._retained = retained
        self.pushed: str | None = None
        """Version of the weights that the sampler has; None means that nothing was handed over yet."""

    def push(self, model: "PreTrainedModel", *, version: str | None = None, companions: Path | None = None) -> str:
        """Hands over the model's present weights, unless the sampler has them; returns their hash.

        ``version``: the hash, if known. ``companions``: a folder whose tokenizer and other files are copied along
        with whole models; None means weights and config alone. Raises TrainingError when the sampler takes adapters
        and the model has none, or where the saved weights would load as different ones, and whatever ``load``
        raises.
        """
        from upturn.models.engine import weights_hash
        from upturn.training.optimisation import save_adapter

        if self._form == "adapter" and not getattr(model, "peft_config", None):
            raise TrainingError(
                f"the engine takes adapters while it runs, {type(model).__name__} has no adapter: train with LoRA "
                "(lora.rank), or sample with an engine or workers that take whole models"
            )
        version = version or weights_hash(model)
        if version == self.pushed:
            return version
        target = self._start(version)
        if self._form == "adapter":
            save_adapter(model, target)
        else:
            self._save_checkpoint(model, target, version, companions)
        return self._finish(target, version)

    def push_folder(self, source: Path, version: str) -> str:
        """Hands over a copy of a folder in the sampler's form, whose weights have this version."""
        if version != self.pushed:
            target = self._start(version)
            shutil.copytree(source, target, dirs_exist_ok=True)
            self._finish(target, version)
        return version

    def close(self) -> None:
        """Unloads the weights where the sampler has them by name, and removes all folders."""
        if self.pushed is not None and self._unload is not None:
            with suppress(ModelError):  # the sampler may be gone
                self._unload(self.pushed)
        self.pushed = None
        for path in self._folders():
            shutil.rmtree(path, ignore_errors=True)

    def _start(self, version: str) -> Path:
        """The folder to write. Removes what a killed run left, before it takes more space."""
        self._folder.mkdir(parents=True, exist_ok=True)
        if self.pushed is None:
            for path in self._folders():
                name = _version_of(path)
                if name != version and name == path.name and self._unload is not None:
                    with suppress(ModelError):  # not loaded any more
                        self._unload(name)
                shutil.rmtree(path, ignore_errors=True)
        return self._folder / version

    def _finish(self, target: Path, version: str) -> str:
        self._load(target, version)
        self.pushed = version
        older = [path for path in self._folders() if path != target]
        older.sort(key=lambda path: path.stat().st_mtime, reverse=True)
        for path in older[self._retained - 1 :]:
            shutil.rmtree(path, ignore_errors=True)
        return version

    def _save_checkpoint(
        self, model: "PreTrainedModel", target: Path, version: str, companions: Path | None
    ) -> None:
        from upturn.training.runs import save_version, write_model

        if self.stored is not None:
            write_model(model, target, stored=self.stored, companions=companions)
            return
        saved = save_version(model, target, companions=companions)
        if saved != version:
            raise TrainingError(
                f"weights with hash {version!r} load as {saved!r}: only float32 weights can be handed over, since "
                "each token is stamped with the hash of the weights that sampled it; train in float32 "
                "(precision='bfloat16' keeps such weights)"
            )

    def _folders(self) -> list[Path]:
        """The folders of weights; other content of the folder is not touched."""
        if not self._folder.is_dir():
            return []
        return [path for path in self._folder.iterdir() if _WEIGHTS_FOLDER.fullmatch(path.name)]


def _version_of(path: Path) -> str:
    match = _WEIGHTS_FOLDER.fullmatch(path.name)
    assert match is not None
    return match["version"]


def sync_with_engine(engine: RemoteEngine, folder: Path, *, stored: "Stored | None" = None) -> WeightSync:
    """Hand-over to an engine at a URL, in the form that it takes. Not for use on an event loop."""

    def load(path: Path, version: str) -> None:
        asyncio.run(engine.load_weights(path, version))

    def unload(version: str) -> None:
        asyncio.run(engine.unload_weights(version))

    return WeightSync(load, folder, form=engine.form, stored=stored, unload=unload)
