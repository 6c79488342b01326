"""Hand-over of weights to a sampler elsewhere, as a folder that is named after their hash.

The hash is the version: every generation, and so every trajectory, carries it, and ``AheadCollect`` compares it
with the weights that were promised. A checkpoint folder is one that ``save_version`` wrote; an adapter folder has
PEFT's format, without the base model's weights. A folder is complete or absent. The newest two are retained, since
a replacement worker still loads from them.
"""

import asyncio
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from upturn.errors import TrainingError
from upturn.models import RemoteEngine, WeightsForm

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

_RETAINED = 2
_WEIGHTS_FOLDER = re.compile("[0-9a-f]{32}")
"""Format of ``weights_hash``."""


class WeightSync:
    """Copies one model's weights to one sampler. Not thread-safe: sampling ahead needs one of its own."""

    def __init__(
        self,
        model: "PreTrainedModel",
        load: Callable[[Path, str], None],
        folder: Path,
        *,
        form: WeightsForm = "checkpoint",
        companions: Path | None = None,
    ) -> None:
        """``model``: its weights are handed over, or it holds those that ``push`` receives.

        ``load``: loads the weights in a folder into the sampler, which has no requests in progress. ``folder``:
        holds the folders of weights, has the same path for the sampler, and belongs to this object alone, which
        removes older ones. ``form``: whole models, into which an adapter is merged, or adapters. ``companions``: a
        folder whose tokenizer and other files are copied along with whole models; None means weights and config
        alone. Raises TrainingError when the sampler takes adapters and the model has none.
        """
        self._model = model
        self._load = load
        self._folder = folder.absolute()
        self._form = form
        self._companions = companions
        self._pushed: str | None = None
        if form == "adapter" and not getattr(model, "peft_config", None):
            raise TrainingError(
                f"the engine takes adapters while it runs, {type(model).__name__} has no adapter: train with LoRA "
                "(lora.rank), or sample with SGLang or workers, which take whole models"
            )

    def push(self, weights: "Mapping[str, Tensor] | None" = None) -> str:
        """Hands over ``weights`` (None: the model's present ones), unless the sampler has them; returns their hash.

        Raises TrainingError where the saved weights would load as different ones, and whatever ``load`` raises.
        """
        from upturn.models.engine import weights_hash
        from upturn.training.distributed import restore_weights
        from upturn.training.optimisation import save_adapter

        if weights is not None:
            restore_weights(self._model, weights)
        version = weights_hash(self._model)
        if version == self._pushed:
            return version
        target = self._folder / version
        if self._form == "adapter":
            save_adapter(self._model, target)
        else:
            self._save_checkpoint(target, version)
        self._load(target, version)
        self._pushed = version
        self._remove_older(target)
        return version

    def _save_checkpoint(self, target: Path, version: str) -> None:
        from upturn.training.runs import save_version

        self._folder.mkdir(parents=True, exist_ok=True)
        saved = save_version(self._model, target, companions=self._companions)
        if saved != version:
            raise TrainingError(
                f"weights with hash {version!r} load as {saved!r}: only float32 weights can be handed over, since "
                "each token is stamped with the hash of the weights that sampled it; train in float32 "
                "(precision='bfloat16' keeps such weights)"
            )

    def _remove_older(self, newest: Path) -> None:
        """Removes all but the newest folders of weights; other content of the folder is not touched."""
        older = [path for path in self._folder.iterdir() if _WEIGHTS_FOLDER.fullmatch(path.name) and path != newest]
        older.sort(key=lambda path: path.stat().st_mtime, reverse=True)
        for path in older[_RETAINED - 1 :]:
            shutil.rmtree(path, ignore_errors=True)


def sync_with_engine(
    model: "PreTrainedModel", engine: RemoteEngine, folder: Path, *, companions: Path | None = None
) -> WeightSync:
    """Hand-over to an engine at a URL, in the form that its dialect takes. Not for use on an event loop."""

    def load(path: Path, version: str) -> None:
        asyncio.run(engine.load_weights(path, version))

    return WeightSync(model, load, folder, form=engine.form, companions=companions)
