"""What every side of an update comparison is told: which model, which rollouts, where to leave its gradient."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.workloads import Subject, Workload, load_workload
from upturn.records import JsonValue
from upturn.training import FloatArray

if TYPE_CHECKING:
    from torch import nn

CLIP_LOW, CLIP_HIGH = 0.2, 0.28
LEARNING_RATE = 1e-6
"""So small that the model, and with it the work, stays the same over all repetitions."""
NO_LIMIT = 1e9
"""Of the gradient's norm: it is computed on both sides, and never binds."""


@dataclass(frozen=True, slots=True)
class UpdateTask:
    """Files are shared by all sides."""

    subject: Subject
    workload: Path
    """``.npz`` of ``benchmarks.workloads.workload``."""
    own_logprobs: Path
    """``.npy``, ``(ΣA,)``: what the model gives to the written tokens, as the dense side found it."""
    threads: int
    gradient: Path | None = None
    """Where to leave the gradient of the first step (safetensors); None = nowhere."""
    device: str = "cpu"
    """Where the model is: ``cpu`` or ``cuda``."""

    def settings(self) -> dict[str, JsonValue]:
        """As JSON, for ``read_task``."""
        return {
            "subject": asdict(self.subject),
            "workload": str(self.workload),
            "own_logprobs": str(self.own_logprobs),
            "threads": self.threads,
            "gradient": None if self.gradient is None else str(self.gradient),
            "device": self.device,
        }

    def load_workload(self) -> Workload:
        """The rollouts."""
        return load_workload(self.workload)

    def load_own_logprobs(self) -> FloatArray:
        """The model's own log-probs."""
        found: FloatArray = np.load(self.own_logprobs)
        return found


def read_task(settings: Mapping[str, Any]) -> UpdateTask:  # Any: settings come as JSON from our own parent
    """What ``UpdateTask.settings`` gave; further keys are the side's own."""
    gradient = settings["gradient"]
    return UpdateTask(
        Subject(**settings["subject"]),
        Path(settings["workload"]),
        Path(settings["own_logprobs"]),
        settings["threads"],
        None if gradient is None else Path(gradient),
        settings["device"],
    )


def save_gradient(model: "nn.Module", path: Path) -> None:
    """Each parameter's gradient by name, in float32."""
    from safetensors.torch import save_file

    save_file(
        {
            name: parameter.grad.detach().float().contiguous()
            for name, parameter in model.named_parameters()
            if parameter.grad is not None
        },
        path,
    )
