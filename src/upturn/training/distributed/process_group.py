"""The process group of a distributed run: ranks, rendezvous and collective calls.

Every process runs the same program and has every row. Work that must happen once, such as sampling, evaluating or
writing a file, happens in the first process, which broadcasts the result; micro-batches are balanced across ranks
(``optimisation.load_balance``), and weights, gradients and optimiser state are sharded (``distributed.sharding``).
A process that dies closes its connections, so that the others fail instead of waiting; a hanging one is detected
after ``Limits.silence_seconds``.
"""

import gc
import io
import os
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from upturn.errors import TrainingError, UpturnError, error_text
from upturn.models import choose_device

ValueT = TypeVar("ValueT")

_RANK = ("RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK")
"""Variables of torchrun and ``accelerate launch``, then those of MPI launchers (as in Accelerate)."""
_SIZE = ("WORLD_SIZE", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE")
_LOCAL_RANK = ("LOCAL_RANK", "MPI_LOCALRANKID", "OMPI_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_RANK")
_GLOO_THREADS = 2
"""Threads of gloo in each process (torch's default)."""


@dataclass(frozen=True, slots=True)
class World:
    """The process group from the view of one process; it has at least two."""

    rank: int
    """Rank of this process, from 0."""
    size: int
    """Number of processes."""
    local_rank: int
    """Rank of this process on its machine."""
    device: str
    """``cpu``, or ``cuda:<local rank>``: until a run starts, what is possible; then, the device of the run."""

    @property
    def is_first(self) -> bool:
        """True for the process that writes files, samples and evaluates."""
        return self.rank == 0


class Limits(NamedTuple):
    """Timeouts of the process group."""

    meeting_seconds: float = 60.0
    """For the rendezvous of all processes."""
    silence_seconds: float = 3600.0
    """For a collective call; longer than the longest sampling or evaluation of the first process."""


LIMITS = Limits()


def world_from_environment(environment: Mapping[str, str] | None = None) -> World | None:
    """The process group set up by ``torchrun``, ``accelerate launch`` or an MPI launcher; None = a single process.

    ``environment``: None = that of this process. CUDA is used where there is a device, unless ACCELERATE_USE_CPU is
    true. Raises TrainingError for contradictory variables, ConfigError for more processes than devices.
    """
    variables = os.environ if environment is None else environment
    size = _number(variables, _SIZE)
    if size is None:
        # without an MPI host file ``accelerate launch --cpu --num_processes N`` silently starts one process
        if variables.get("ACCELERATE_USE_CPU", "").lower() == "true" and variables.get("MASTER_ADDR"):
            raise TrainingError(
                "accelerate launch was asked for several processes on CPUs but started one: with --cpu it needs "
                "MPI (--mpirun_hostfile). Use torchrun --nproc-per-node N, or accelerate launch --use_fsdp"
            )
        return None
    rank = _number(variables, _RANK)
    if rank is None or not 0 <= rank < size:
        raise TrainingError(
            f"WORLD_SIZE is {size} but RANK is {rank!r}; each process needs a rank from 0 to {size - 1}: start "
            "them with torchrun, which sets both"
        )
    if size == 1:
        return None
    missing = [name for name in ("MASTER_ADDR", "MASTER_PORT") if not variables.get(name)]
    if missing:
        raise TrainingError(
            f"WORLD_SIZE is {size} but {' and '.join(missing)} is not set: the processes cannot find each other. "
            "Start them with torchrun, which sets all of it"
        )
    local_rank = _number(variables, _LOCAL_RANK) or 0
    return World(rank, size, local_rank, _device(variables, local_rank))


@contextmanager
def connect(world: World | None, limits: Limits = LIMITS) -> Iterator[World | None]:
    """Connects the processes for collective calls within the context; None = a single process, no effect.

    Raises TrainingError when the rendezvous times out, and as soon as a process is lost.
    """
    if world is None:
        yield None
        return
    import torch
    from torch import distributed

    if world.device != "cpu":
        torch.cuda.set_device(world.device)
    _rendezvous(world, limits)
    try:
        yield world
        for _ in range(_GLOO_THREADS):
            # no process leaves before all are done, and gloo's threads release their last tensors in time
            distributed.barrier()
    except RuntimeError as exc:
        if isinstance(exc, UpturnError) or not _is_lost(exc):
            raise
        raise TrainingError(
            f"process {world.rank} lost another one, which ended or did not answer for {limits.silence_seconds:g} "
            f"s ({str(exc).splitlines()[0]}). See that process's error, and start again: the run resumes"
        ) from exc
    finally:
        gc.collect()  # sharded models are reference cycles; their tensors must be freed before exit
        distributed.destroy_process_group()


def broadcast_first(world: World | None, compute: Callable[[], ValueT]) -> ValueT:
    """Calls ``compute`` in the first process only and broadcasts its result to all.

    An exception propagates in the first process; the others raise TrainingError with its message.
    """
    if world is None:
        return compute()
    local: tuple[ValueT | None, str] = (None, "")
    if world.is_first:
        try:
            local = (compute(), "")
        except Exception as exc:
            _broadcast(world, (None, error_text(exc)))
            raise
    result: tuple[ValueT, str] = _broadcast(world, local)
    value, error = result
    if error:
        raise TrainingError(f"the first process failed: {error}")
    return value


def all_gather(world: World | None, value: ValueT) -> list[ValueT]:
    """The values of all processes by rank, in every process."""
    if world is None:
        return [value]
    from torch import distributed

    buffer: list[Any] = [None] * world.size  # torch's collective returns objects
    distributed.all_gather_object(buffer, _dump(value))
    return [pickle.loads(item) for item in buffer]  # from processes of the same run


def refuse_different(world: World | None, facts: Mapping[str, str]) -> None:
    """Raises TrainingError in every process unless all have the same facts; names the first that differs."""
    by_rank = all_gather(world, dict(facts))
    for name in dict.fromkeys(name for rank_facts in by_rank for name in rank_facts):
        values = [rank_facts.get(name) for rank_facts in by_rank]
        other = next((rank for rank, value in enumerate(values) if value != values[0]), None)
        if other is not None:
            raise TrainingError(
                f"the processes do not run the same: {name} is {values[0]!r} in process 0 and {values[other]!r} in "
                f"process {other}. Start all of them with the same settings, seed, model and data"
            )


def _rendezvous(world: World, limits: Limits) -> None:
    from torch import distributed
    from torch.distributed.distributed_c10d import PrefixStore
    from torch.distributed.rendezvous import rendezvous

    address = f"{os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}"
    timeout = timedelta(seconds=limits.meeting_seconds)
    try:
        store, _, _ = next(rendezvous("env://", world.rank, world.size, timeout=timeout))
        store.set(f"upturn/there/{world.rank}", "1")
        store.wait([f"upturn/there/{rank}" for rank in range(world.size)], timeout)
        distributed.init_process_group(
            "gloo" if world.device == "cpu" else "cpu:gloo,cuda:nccl",
            store=PrefixStore("upturn", store),
            rank=world.rank,
            world_size=world.size,
            timeout=timedelta(seconds=limits.silence_seconds),
        )
    except (RuntimeError, ValueError, OSError) as exc:  # torch's DistError is a RuntimeError
        if distributed.is_initialized():
            distributed.destroy_process_group()
        raise TrainingError(
            f"process {world.rank} of {world.size} could not reach the others at {address} "
            f"(MASTER_ADDR:MASTER_PORT) within {limits.meeting_seconds:g} s: {str(exc).splitlines()[0]}. Check "
            "that the address is that of the first machine, that the port is open and that all processes were "
            "started"
        ) from exc


def _is_lost(exc: RuntimeError) -> bool:
    """Whether the error means that another process was lost; gloo's errors have no type."""
    from torch.distributed import DistError

    return isinstance(exc, DistError) or "gloo" in str(exc)


def _number(environment: Mapping[str, str], names: Sequence[str]) -> int | None:
    """The first of the variables that is set; None = none."""
    name = next((name for name in names if environment.get(name)), None)
    if name is None:
        return None
    try:
        return int(environment[name])
    except ValueError as exc:
        raise TrainingError(
            f"{name} must be a whole number, got {environment[name]!r}; launchers set it: leave it to torchrun"
        ) from exc


def _device(environment: Mapping[str, str], local_rank: int) -> str:
    is_cpu = environment.get("ACCELERATE_USE_CPU", "").lower() == "true"
    return choose_device("cpu" if is_cpu else "auto", local_rank=local_rank)


def _broadcast(world: World, value: object) -> Any:  # torch's collective takes and returns objects
    """The first process's value, in every process."""
    from torch import distributed

    buffer = [_dump(value) if world.is_first else None]
    distributed.broadcast_object_list(buffer, src=0)
    received: Any = buffer[0]
    return pickle.loads(received)  # from a process of the same run


class _Pickler(pickle.Pickler):
    """Also pickles the read-only mappings in records."""

    def reducer_override(self, value: object) -> Any:  # pickle's protocol is open-ended
        return (_read_only, (dict(value),)) if isinstance(value, MappingProxyType) else NotImplemented


def _read_only(values: Mapping[Any, Any]) -> Mapping[Any, Any]:  # the class itself cannot be pickled
    return MappingProxyType(values)


def _dump(value: object) -> bytes:
    buffer = io.BytesIO()
    _Pickler(buffer, protocol=pickle.HIGHEST_PROTOCOL).dump(value)
    return buffer.getvalue()
