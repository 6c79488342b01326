"""The input of every implementation of the update: model, rollouts, and where to write the gradient."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.workloads import ModelSpec, Workload, load_workload
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
    """A model and the files that all implementations share."""

    model: ModelSpec
    workload: Path
    """``.npz`` of ``save_workload``."""
    model_logprobs: Path
    """``.npy``, ``(ΣA,)``: the model's log-probs of the written tokens, computed by the dense path."""
    threads: int
    gradient: Path | None = None
    """Where to write the gradient of the first step (safetensors); None = nowhere."""
    device: str = "cpu"
    """``cpu`` or ``cuda``."""

    def settings(self) -> dict[str, JsonValue]:
        """As JSON, for ``parse_update_task``."""
        return {
            "model": asdict(self.model),
            "workload": str(self.workload),
            "model_logprobs": str(self.model_logprobs),
            "threads": self.threads,
            "gradient": None if self.gradient is None else str(self.gradient),
            "device": self.device,
        }

    def load_workload(self) -> Workload:
        """The rollouts."""
        return load_workload(self.workload)

    def load_model_logprobs(self) -> FloatArray:
        """The model's log-probs of the written tokens."""
        logprobs: FloatArray = np.load(self.model_logprobs)
        return logprobs


def parse_update_task(settings: Mapping[str, Any]) -> UpdateTask:  # Any: JSON from our own parent process
    """The task with these ``settings()``; further keys are ignored."""
    gradient = settings["gradient"]
    return UpdateTask(
        ModelSpec(**settings["model"]),
        Path(settings["workload"]),
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
