"""Cost and savings of sharding one model over two processes of this machine.

A few training steps run in one process and in two, which ``torchrun`` starts, each as a program (this module). The
memory of a process is its peak resident set, including Python, torch, and the whole model that each process builds
before it is sharded.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple

from benchmarks.comparison import Bar, result
from benchmarks.machine import peak_bytes, resident_bytes
from benchmarks.workloads import ModelSpec, build_model
from upturn.errors import MeasurementError
from upturn.records import JsonValue, Result

ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": "1048576"}
"""With this, glibc returns every freed tensor to the system, for one process and for two. By default it keeps
gathered layers after they are freed: two processes then needed 0.82 of the memory of one, with the same shards."""
_TIMEOUT_SECONDS = 1_200.0
_SHOWN = 2_000
"""Last characters of a failed program's output that the error shows."""


@dataclass(frozen=True, slots=True)
class ShardedWork:
    """Model, data and number of steps."""

    model: ModelSpec = field(default_factory=lambda: ModelSpec(width=1_024, layers=12, vocabulary=4_096))
    """193 million parameters: 3.1 GB with gradients and optimiser."""
    rollouts: int = 8
    tokens: int = 32
    """Per rollout; the second half is written."""
    micro_batch_tokens: int = 64
    steps: int = 2
    """The first allocates the optimiser's state, the second needs all memory at once."""


QUICK = ShardedWork(ModelSpec(width=64, layers=2, vocabulary=256), rollouts=2, tokens=8)


class ProcessFigures(NamedTuple):
    """Figures of one process."""

    peak_bytes: int
    started_bytes: int
    """Memory before the model is built."""
    seconds: float
    """Of the last step; earlier ones allocate."""
    losses: list[float]
    is_sharded: bool
    """True when every parameter is sharded."""


class ShardingFigures(NamedTuple):
    """Figures without and with sharding."""

    single: ProcessFigures
    sharded: list[ProcessFigures]
    """By rank."""

    @property
    def memory_share(self) -> float:
        """Peak memory of the largest sharded process, as a share of the single process's."""
        return max(process.peak_bytes for process in self.sharded) / self.single.peak_bytes

    @property
    def loss_gap(self) -> float:
        """Largest difference of a step's loss."""
        return max(
            abs(loss - other)
            for process in self.sharded
            for loss, other in zip(self.single.losses, process.losses, strict=True)
        )


def measure_processes(work: ShardedWork, *, has_bars: bool = True) -> tuple[list[Result], dict[str, JsonValue]]:
    """Loss gap, and shares of a single process's memory and time. Raises MeasurementError when a process fails."""
    figures = measure_sharding(work)
    loss_bar, memory_bar = (Bar(1e-5, is_upper=True), Bar(0.65, is_upper=True)) if has_bars else (None, None)
    seconds = max(process.seconds for process in figures.sharded)
    is_sharded = all(process.is_sharded for process in figures.sharded)
    results = [
        result("processes_loss_gap", figures.loss_gap, "nats", loss_bar),
        result("processes_memory_share", figures.memory_share, "of one process", memory_bar),
        result("processes_seconds_share", seconds / figures.single.seconds, "of one process"),
        Result("processes_sharded", "yes" if is_sharded else "no"),
    ]
    details: dict[str, JsonValue] = {
        "width": work.model.width,
        "layers": work.model.layers,
        "peak_gb_one": round(figures.single.peak_bytes / 2**30, 3),
        "peak_gb_each": [round(process.peak_bytes / 2**30, 3) for process in figures.sharded],
        "seconds_one": round(figures.single.seconds, 2),
        "seconds_each": [round(process.seconds, 2) for process in figures.sharded],
    }
    return results, details


def measure_sharding(work: ShardedWork, *, processes: int = 2) -> ShardingFigures:
    """Trains in one process, then in several, each with one thread.

    Raises MeasurementError with the output of a program that fails.
    """
    with tempfile.TemporaryDirectory() as name:
        single, sharded = Path(name) / "single", Path(name) / "sharded"
        launcher = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={processes}"]
        _run([sys.executable], work, single)
        _run([*launcher, "--master-addr=127.0.0.1", f"--master-port={_free_port()}"], work, sharded)
        return ShardingFigures(_read(single, 0), [_read(sharded, rank) for rank in range(processes)])


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _run(launcher: list[str], work: ShardedWork, folder: Path) -> None:
    folder.mkdir()
    command = [*launcher, "-m", "benchmarks.algorithms.sharding", str(folder), json.dumps(asdict(work))]
    process = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=_TIMEOUT_SECONDS,
        env={**os.environ, **ALLOCATOR, "OMP_NUM_THREADS": "1"},
    )
    if process.returncode != 0:
        raise MeasurementError(f"{' '.join(command)} failed: {process.stderr[-_SHOWN:]}")


def _read(folder: Path, rank: int) -> ProcessFigures:
    return ProcessFigures(**json.loads((folder / f"{rank}.json").read_text()))


def train(folder: Path, work: ShardedWork) -> None:
    """The program of each process; writes ``<rank>.json`` into the folder."""
    import numpy as np
    import torch
    from torch.distributed.tensor import DTensor

    from upturn.config import OptimiserSettings
    from upturn.training import Stream, TrainingRow
    from upturn.training.distributed import connect, shard, world_from_environment
    from upturn.training.losses import CrossEntropy
    from upturn.training.optimisation import Trainer

    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    written = np.arange(work.tokens // 2, work.tokens)
    rows = [
        TrainingRow(
            str(index),
            rng.integers(0, work.model.vocabulary, work.tokens),
            written,
            np.ones(len(written), dtype=np.float32),
            None,
        )
        for index in range(work.rollouts)
    ]
    settings = OptimiserSettings(micro_batch_tokens=work.micro_batch_tokens)
    with connect(world_from_environment()) as world:
        started_bytes, losses, seconds = resident_bytes(), list[float](), 0.0
        model = build_model(work.model)
        shard(model, world)
        trainer = Trainer(model, settings)
        for _ in range(work.steps):
            started = time.perf_counter()
            metrics = trainer.step([Stream(rows, CrossEntropy(), float(len(rows) * len(written)))])
            seconds = time.perf_counter() - started
            losses.append(metrics.loss)
        is_sharded = all(isinstance(parameter, DTensor) for parameter in model.parameters())
        figures = ProcessFigures(peak_bytes(), started_bytes, seconds, losses, is_sharded)
        rank = 0 if world is None else world.rank
        (folder / f"{rank}.json").write_text(json.dumps(figures._asdict()))


if __name__ == "__main__":
    values = json.loads(sys.argv[2])
    train(Path(sys.argv[1]), ShardedWork(**{**values, "model": ModelSpec(**values["model"])}))
