"""A program that trains in one folder undisturbed, and in another while it is killed again and again.

Each try is a child process that kills itself with SIGKILL at its n-th operation on a file, so that it dies between
and within the writing of every file there is; files of tensors it leaves half-written. Prints as JSON how often it
was killed, and after how many units the checkpoints were that it left.
"""

import itertools
import json
import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from transformers import PreTrainedModel, Qwen2Config, Qwen2ForCausalLM

from upturn.config import OptimiserSettings
from upturn.training import TrainingRow
from upturn.training.evaluation_result import EvaluationResult
from upturn.training.losses import CrossEntropy
from upturn.training.optimisation.trainer import Trainer
from upturn.training.runs import RunOptions, RunPlan
from upturn.training.runs.checkpoint import latest_checkpoint, read_checkpoint
from upturn.training.runs.run import Run, identity_of
from upturn.training.runs.run_folder import CHECKPOINTS_FOLDER
from upturn.training.stream import State, Stream, Unit

OPERATIONS = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir"}
MOST = 6
"""Entries in the folder of checkpoints: two of each of a checkpoint, its best weights and a half-written one."""
UNITS = 5
STEP = 2
"""File operations that each try gets further than the one before it; a unit takes about 40."""


class Adapting:
    """One row whose weight is an accumulated number: forgetting it changes all that follows."""

    def __init__(self) -> None:
        self.weight = 1.0

    def unit(self, index: int) -> Unit:
        self.weight = self.weight * 1.3 + 0.1 * index
        tokens, positions = np.array([1, 5, 2, 7, 3]), np.array([2, 3, 4])
        row = TrainingRow("t", tokens, positions, np.full(3, self.weight, dtype=np.float32), None)
        return Unit([[Stream([row], CrossEntropy(), 3.0)]], {"weight": self.weight})

    def state(self) -> State:
        return {"weight": self.weight}

    def load_state(self, state: State) -> None:
        self.weight = float(state["weight"])


def model() -> PreTrainedModel:
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    return Qwen2ForCausalLM(Qwen2Config(vocab_size=12, num_key_value_heads=1, **sizes))  # type: ignore[arg-type]


def train(folder: Path) -> None:
    torch.set_num_threads(1)
    trainer = Trainer(model(), OptimiserSettings(learning_rate=1e-2))
    plan = RunPlan(UNITS, 1, 1, "best", cost_limits={"length": 9.0})
    identity = identity_of(trainer, "toy", trainer.settings)

    def evaluate(units: int) -> EvaluationResult:
        return EvaluationResult(float(units), {"length": 1.0}, measure="how long it was trained")

    Run(trainer, Adapting(), plan, identity, RunOptions(0, folder, evaluate=evaluate)).finish()


def in_child(work: Callable[[], None]) -> int:
    """The signal that ended it; 0 = it finished."""
    child = os.fork()
    if child == 0:
        work()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, "a child failed; its traceback is above"
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


def killed_at(operation: int, folder: Path) -> None:
    left = itertools.count(operation, -1)
    save_file = safetensors.torch.save_file

    def count_operations(event: str, arguments: tuple[object, ...]) -> None:
        is_ours = event in OPERATIONS and str(folder) in str(arguments[0])
        if is_ours and next(left) <= 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def save_or_die(tensors: dict[str, torch.Tensor], path: Any) -> None:
        save_file(tensors, path)
        if next(left) <= 0:
            os.truncate(path, path.stat().st_size // 2)
            os.kill(os.getpid(), signal.SIGKILL)

    setattr(safetensors.torch, "save_file", save_or_die)  # noqa: B010  # with fewer parameters
    sys.addaudithook(count_operations)
    train(folder)


def main(calm: Path, shaken: Path) -> None:
    assert in_child(partial(train, calm)) == 0
    killed, left = 0, set[int]()
    while in_child(partial(killed_at, 1 + STEP * killed, shaken)) == signal.SIGKILL:
        killed += 1
        checkpoints = shaken / CHECKPOINTS_FOLDER
        latest = latest_checkpoint(checkpoints)
        if latest is not None:
            left.add(int(latest.name))
            identity = json.loads((latest / "manifest.json").read_text())["record"]["identity"]
            read_checkpoint(latest, identity)  # raises if it is damaged
        entries = sorted(path.name for path in checkpoints.glob("*"))
        assert len(entries) <= MOST, f"files of killed processes accumulate: {entries}"
    print(json.dumps({"killed": killed, "left": sorted(left)}))  # noqa: T201  # what the test reads


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
