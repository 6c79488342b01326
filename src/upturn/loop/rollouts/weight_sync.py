"""Weights for whoever samples elsewhere: saved as a folder that is named by their hash, and taken from there.

The hash is the version: it stands in every generation, so in every trajectory, and whoever collects compares it
with the weights that were promised (``AheadCollect``). A checkpoint folder is one that ``save_version`` wrote; an
adapter folder is one of PEFT's, the base model's weights stay where they are. Folders are whole or not there; the
newest two are kept, since a worker that replaces another still loads from them.
"""

import asyncio
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from upturn.agents import WorkerPool
from upturn.errors import TrainingError
from upturn.models import RemoteEngine, WeightsForm

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

_KEPT = 2
_NAMED = re.compile("[0-9a-f]{32}")
"""A folder of weights is called like ``weights_hash`` writes them."""


class Receiver(Protocol):
    """Whoever samples with weights that are handed over."""

    @property
    def form(self) -> WeightsForm:
        """What it takes: folders of whole models, or of adapters."""

    def take(self, folder: Path, version: str) -> None:
        """Samples with the weights in the folder when it returns. The caller has no requests under way."""


class EngineReceiver:
    """An engine at a URL. Not for use on an event loop."""

    def __init__(self, engine: RemoteEngine) -> None:
        self._engine = engine

    @property
    def form(self) -> WeightsForm:
        """As its dialect says."""
        return self._engine.form

    def take(self, folder: Path, version: str) -> None:
        """Raises ModelError when it cannot."""
        asyncio.run(self._engine.load_weights(folder, version))


class CrewReceiver:
    """Workers of a cluster, which take whole models."""

    form: WeightsForm = "checkpoint"

    def __init__(self, crew: WorkerPool) -> None:
        self._crew = crew

    def take(self, folder: Path, version: str) -> None:
        """Raises ClusterError when one of them cannot."""
        self._crew.load_weights(str(folder), version)


class Handover:
    """From one model to one receiver. Not thread-safe: whoever samples ahead has both for itself."""

    def __init__(
        self, model: "PreTrainedModel", receiver: Receiver, folder: Path, *, companions: Path | None = None
    ) -> None:
        """``model``: whose weights are handed over, or that holds those which are given.

        ``folder``: where the folders of weights lie, readable for the receiver under the same path, and for this
        handover alone: it removes older ones. ``companions``: a folder whose tokenizer and other files go along
        with whole models; None = weights and config alone. Who takes whole models is given an adapter merged.
        Raises TrainingError when the receiver takes adapters and the model has none.
        """
        self._model = model
        self._receiver = receiver
        self._folder = folder.absolute()
        self._companions = companions
        self._given: str | None = None
        if receiver.form == "adapter" and not getattr(model, "peft_config", None):
            raise TrainingError(
                f"the engine takes adapters while it runs, {type(model).__name__} has no adapter: train with LoRA "
                "(lora.rank), or sample with SGLang or workers, which take whole models"
            )

    def give(self, weights: "Mapping[str, Tensor] | None" = None) -> str:
        """Hands over ``weights``, or the model's as they are (None); returns their hash. The same again is a no-op.

        Raises TrainingError where saved weights would load as others, and whatever the receiver raises.
        """
        from upturn.models.engine import weights_hash
        from upturn.training.distributed import restore_weights
        from upturn.training.optimisation import save_adapter

        if weights is not None:
            restore_weights(self._model, weights)
        version = weights_hash(self._model)
        if version == self._given:
            return version
        target = self._folder / version
        if self._receiver.form == "adapter":
            save_adapter(self._model, target)
        else:
            self._save_checkpoint(target, version)
        self._receiver.take(target, version)
        self._given = version
        self._forget(target)
        return version

    def _save_checkpoint(self, target: Path, version: str) -> None:
        from upturn.training.runs import save_version

        self._folder.mkdir(parents=True, exist_ok=True)
        saved = save_version(self._model, target, companions=self._companions)
        if saved != version:
            raise TrainingError(
                f"weights with hash {version!r} load as {saved!r}: only float32 weights can be handed over, since "
                "each token is stamped with the hash of what sampled it; train in float32 (precision='bfloat16' "
                "keeps such weights)"
            )

    def _forget(self, newest: Path) -> None:
        """Removes all folders of weights but the newest. Nothing else that lies there is touched."""
        others = [each for each in self._folder.iterdir() if _NAMED.fullmatch(each.name) and each != newest]
        others.sort(key=lambda each: each.stat().st_mtime)
        for folder in others[: max(0, len(others) - (_KEPT - 1))]:
            shutil.rmtree(folder, ignore_errors=True)
