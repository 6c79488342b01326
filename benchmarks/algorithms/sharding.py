"""What sharding over two processes on one machine costs and saves: a few steps of one model, alone and in shards.

Each way is a program of its own (this module, run as one), started by ``torchrun`` where it is two processes. The
memory of a process is the highest that its resident set ever was, everything included: what Python and torch take,
and the whole model that each process is given before it is sharded.
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

from benchmarks.machine import peak_bytes, resident_bytes
from benchmarks.workloads import Subject, build_model
from upturn.errors import MeasurementError

ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": "1048576"}
"""glibc then gives every freed tensor back to the system, in both ways alike. As it comes it keeps the layers that
were gathered and dropped: two processes then held 0.82 of what one holds, with the same shards."""
_PATIENCE_SECONDS = 1_200.0
_SHOWN = 2_000
"""Last characters of what a program that failed printed."""


@dataclass(frozen=True, slots=True)
class ShardedWork:
    """What both ways compute."""

    subject: Subject = field(default_factory=lambda: Subject(width=1_024, layers=12, vocabulary=4_096))
    """193 million parameters: 3.1 GB with gradients and optimiser."""
    rollouts: int = 8
    tokens: int = 32
    """Of each rollout; its second half is written."""
    micro_batch_tokens: int = 64
    steps: int = 2
    """The first makes the optimiser's state, the second needs all at once."""


class ProcessFigures(NamedTuple):
    """Of one process."""

    peak_bytes: int
    started_bytes: int
    """Held before there was a model."""
    seconds: float
    """Of the last step; the ones before it allocate."""
    losses: list[float]
    sharded: bool
    """Whether every parameter lies in shards."""


class ShardingFigures(NamedTuple):
    """Both ways."""

    one: ProcessFigures
    several: list[ProcessFigures]
    """By rank."""

    @property
    def memory_share(self) -> float:
        """The largest of the processes over the one that does it alone."""
        return max(each.peak_bytes for each in self.several) / self.one.peak_bytes

    @property
    def loss_gap(self) -> float:
        """Largest difference of a step's loss between the two ways."""
        return max(
            abs(mine - other)
            for each in self.several
            for mine, other in zip(self.one.losses, each.losses, strict=True)
        )


def measure_sharding(work: ShardedWork, *, processes: int = 2) -> ShardingFigures:
    """Trains alone, then in so many processes of this machine, each with one thread.

    Raises MeasurementError with what a program printed when it fails.
    """
    with tempfile.TemporaryDirectory() as name:
        alone, together = Path(name) / "alone", Path(name) / "together"
        launcher = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={processes}"]
        _run([sys.executable], work, alone)
        _run([*launcher, "--master-addr=127.0.0.1", f"--master-port={_free_port()}"], work, together)
        return ShardingFigures(_read(alone, 0), [_read(together, rank) for rank in range(processes)])


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _run(launcher: list[str], work: ShardedWork, folder: Path) -> None:
    folder.mkdir()
    command = [*launcher, "-m", "benchmarks.algorithms.sharding", str(folder), json.dumps(asdict(work))]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=_PATIENCE_SECONDS,
        env={**os.environ, **ALLOCATOR, "OMP_NUM_THREADS": "1"},
    )
    if done.returncode != 0:
        raise MeasurementError(f"{' '.join(command)} failed: {done.stderr[-_SHOWN:]}")


def _read(folder: Path, rank: int) -> ProcessFigures:
    return ProcessFigures(**json.loads((folder / f"{rank}.json").read_text()))


def train(folder: Path, work: ShardedWork) -> None:
    """What each process does; leaves ``<rank>.json`` in the folder."""
    import numpy as np
    import torch
    from torch.distributed.tensor import DTensor

    from upturn.config import OptimiserSettings
    from upturn.training import Stream, TrainingRow
    from upturn.training.distributed import connected, shard, world_from_environment
    from upturn.training.losses import CrossEntropy
    from upturn.training.optimisation import Trainer

    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    written = np.arange(work.tokens // 2, work.tokens)
    rows = [
        TrainingRow(
            str(index),
            rng.integers(0, work.subject.vocabulary, work.tokens),
            written,
            np.ones(len(written), dtype=np.float32),
            None,
        )
        for index in range(work.rollouts)
    ]
    settings = OptimiserSettings(micro_batch_tokens=work.micro_batch_tokens)
    with connected(world_from_environment()) as world:
        started_bytes, losses, seconds = resident_bytes(), list[float](), 0.0
        model = build_model(work.subject)
        shard(model, world)
        trainer = Trainer(model, settings)
        for _ in range(work.steps):
            started = time.perf_counter()
            metrics = trainer.step([Stream(rows, CrossEntropy(), float(len(rows) * len(written)))])
            seconds = time.perf_counter() - started
            losses.append(metrics.loss)
        is_sharded = all(isinstance(each, DTensor) for each in model.parameters())
        found = ProcessFigures(peak_bytes(), started_bytes, seconds, losses, is_sharded)
        rank = 0 if world is None else world.rank
        (folder / f"{rank}.json").write_text(json.dumps(found._asdict()))


def _work(text: str) -> ShardedWork:
    values = json.loads(text)
    return ShardedWork(**{**values, "subject": Subject(**values["subject"])})


if __name__ == "__main__":
    train(Path(sys.argv[1]), _work(sys.argv[2]))
