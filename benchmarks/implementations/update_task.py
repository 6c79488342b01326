"""The input of every implementation of the update: model, rollouts, and where to write the gradient."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.workloads import ModelSpec, WorkloadSettings
from upturn.records import JsonValue
from upturn.training import FloatArray

if TYPE_CHECKING:
    from torch import nn

CLIP_LOW, CLIP_HIGH = 0.2, 0.28
LEARNING_RATE = 1e-6
"""So small that the model, and with it the work, stays the same over all repetitions."""
MAX_GRAD_NORM = 1e9
"""Never binds; all implementations still compute the norm."""


@dataclass(frozen=True, slots=True)
class UpdateTask:
    """A model and its rollouts."""

    model: ModelSpec
    workload: WorkloadSettings
    model_logprobs: Path
    """``.npy``, ``(ΣA,)``: the model's log-probs of the written tokens, computed by the dense path."""
    threads: int
    gradient: Path | None = None
    """Where to write the gradient of the first step (safetensors); None = nowhere."""
    device: str = "cpu"
    """``cpu`` or ``cuda``."""

    def settings(self) -> dict[str, JsonValue]:
        """As JSON, for ``parse_update_task``."""
        return {name: str(value) if isinstance(value, Path) else value for name, value in asdict(self).items()}

    def load_model_logprobs(self) -> FloatArray:
        """The model's log-probs of the written tokens."""
        logprobs: FloatArray = np.load(self.model_logprobs)
        return logprobs


def parse_update_task(settings: Mapping[str, Any]) -> UpdateTask:  # Any: JSON from our own parent process
    """The task with these ``settings()``; further keys are ignored."""
    gradient = settings["gradient"]
    workload: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in settings["workload"].items()
    }
    return UpdateTask(
        ModelSpec(**settings["model"]),
        WorkloadSettings(**workload),
        Path(settings["model_logprobs"]),
        settings["threads"],
        None if gradient is None else Path(gradient),
        settings["device"],
    )


def save_gradient(model: "nn.Module", path: Path) -> None:
    """Writes each parameter's gradient by name, in float32."""
    from safetensors.torch import save_file

    save_file(
        {
            name: parameter.grad.detach().float().contiguous()
            for name, parameter in model.named_parameters()
            if parameter.grad is not None
        },
        path,
    )
