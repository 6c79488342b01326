"""Several processes that train one model together: who they are, how they meet and how they agree.

Every process runs the same program and knows every row. What must happen once, such as sampling, judging or writing
a file, happens in the first process, and the others hear of the result; what is computed is dealt out
(``optimisation.load_balance``), and weights, gradients and optimiser lie in shards (``distributed.sharding``).
A process that dies closes its connections, so that the others fail instead of waiting; what only hangs ends with
``Limits.silence_seconds``. Nothing is read from the environment, and nothing started, before it is asked for.
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
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar

from upturn.errors import TrainingError, UpturnError, described

ValueT = TypeVar("ValueT")
Given = ParamSpec("Given")

_RANK = ("RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK")
"""Names that torchrun and ``accelerate launch`` use, then those of MPI launchers (as in Accelerate)."""
_SIZE = ("WORLD_SIZE", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE")
_LOCAL_RANK = ("LOCAL_RANK", "MPI_LOCALRANKID", "OMPI_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_RANK")


_TALKING_THREADS = 2
"""Of gloo, in each process (torch's default)."""


@dataclass(frozen=True, slots=True)
class World:
    """The processes of a run, as one of them sees them; there are at least two."""

    rank: int
    """Of this process, from 0."""
    size: int
    """How many processes there are."""
    local_rank: int
    """Of this process among those of its machine."""
    device: str
    """``cpu``, or ``cuda:<local rank>``."""

    @property
    def is_first(self) -> bool:
        """True for the process that writes files, samples and judges."""
        return self.rank == 0


class Limits(NamedTuple):
    """How long processes wait for each other."""

    meeting_seconds: float = 60.0
    """For all of them to be there."""
    silence_seconds: float = 3600.0
    """For an answer of the others; longer than the longest sampling or evaluation of the first process."""


LIMITS = Limits()


def world_from_environment(environment: Mapping[str, str] | None = None) -> World | None:
    """The world that ``torchrun``, ``accelerate launch`` or an MPI launcher started this process in; None = alone.

    ``environment``: None = that of this process. CUDA is used where there is a device, unless ACCELERATE_USE_CPU is
    true. Raises TrainingError for variables that contradict each other.
    """
    found = os.environ if environment is None else environment
    size = _number(found, _SIZE)
    if size is None:
        _refuse_left_alone(found)
        return None
    rank = _number(found, _RANK)
    if rank is None or not 0 <= rank < size:
        raise TrainingError(
            f"WORLD_SIZE is {size} but RANK is {rank!r}; each process needs a rank from 0 to {size - 1}: start "
            "them with torchrun, which sets both"
        )
    if size == 1:
        return None
    missing = [name for name in ("MASTER_ADDR", "MASTER_PORT") if not found.get(name)]
    if missing:
        raise TrainingError(
            f"WORLD_SIZE is {size} but {' and '.join(missing)} is not set: the processes cannot find each other. "
            "Start them with torchrun, which sets all of it"
        )
    local_rank = _number(found, _LOCAL_RANK) or 0
    return World(rank, size, local_rank, _device(found, local_rank))


@contextmanager
def connected(world: World | None, limits: Limits = LIMITS) -> Iterator[World | None]:
    """Inside, the processes of the world can talk to each other; None = there is one, nothing happens.

    Raises TrainingError when they do not all meet in time, and as soon as one is missed.
    """
    if world is None:
        yield None
        return
    import torch
    from torch import distributed

    if world.device != "cpu":
        torch.cuda.set_device(world.device)
    _meet(world, limits)
    try:
        yield world
        for _ in range(_TALKING_THREADS):
            # nobody leaves before all are done; and gloo's threads let go of the last tensors: later they could not
            distributed.barrier()
    except RuntimeError as exc:
        if isinstance(exc, UpturnError) or not _is_lost(exc):
            raise
        raise TrainingError(
            f"process {world.rank} lost another one, which ended, or said nothing for {limits.silence_seconds:g} s "
            f"({str(exc).splitlines()[0]}). See what that one said, and start again: the run resumes"
        ) from exc
    finally:
        gc.collect()  # models in shards refer to themselves; what they hold must be gone before Python ends
        distributed.destroy_process_group()


def agreed(world: World | None, compute: Callable[[], ValueT]) -> ValueT:
    """What ``compute`` gives in the first process, in all of them; nowhere else is it called.

    An exception passes through in the first process; the others raise TrainingError with its message.
    """
    if world is None:
        return compute()
    answer: _Answer[ValueT] | None = None
    if world.is_first:
        try:
            answer = _Answer(compute(), None)
        except Exception as exc:
            _broadcast(world, _Answer(None, described(exc)))
            raise
    received = _broadcast(world, answer)
    assert received is not None
    if received.trouble is not None:
        raise TrainingError(f"the first process failed: {received.trouble}")
    return received.value  # type: ignore[return-value]  # no trouble, so there is a value


def everyone(world: World | None, value: ValueT) -> list[ValueT]:
    """The values of all processes, by rank, in each of them."""
    if world is None:
        return [value]
    from torch import distributed

    found: list[Any] = [None] * world.size  # torch's own collective gives objects
    distributed.all_gather_object(found, _packed(value))
    return [_unpacked(each) for each in found]


def shared(
    function: Callable[Given, ValueT], world: World | None, before: Callable[[], None] | None = None
) -> Callable[Given, ValueT]:
    """``function``, called in the first process only; all get what it gives. For sampling and evaluations.

    ``before`` is called in every process each time, such as ``WholeCopy.refresh``; None = nothing.
    """

    def everywhere(*arguments: Given.args, **named: Given.kwargs) -> ValueT:
        if before is not None:
            before()
        return agreed(world, lambda: function(*arguments, **named))

    return everywhere


def side_by_side(
    function: Callable[Given, Sequence[ValueT]], world: World | None, before: Callable[[], None] | None = None
) -> Callable[Given, Sequence[ValueT]]:
    """``function``, called in each process for its own share; all get what all of them gave, by rank.

    For sampling side by side: which tasks are whose is the function's business. What it raises in one process, all
    raise as a TrainingError. ``before`` as in ``shared``.
    """

    def everywhere(*arguments: Given.args, **named: Given.kwargs) -> Sequence[ValueT]:
        if before is not None:
            before()
        if world is None:
            return function(*arguments, **named)
        try:
            answer = _Answer[Sequence[ValueT]](function(*arguments, **named), None)
        except Exception as exc:
            everyone(world, _Answer(None, described(exc)))
            raise
        answers = everyone(world, answer)
        for rank, each in enumerate(answers):
            if each.trouble is not None:
                raise TrainingError(f"process {rank} failed: {each.trouble}")
        return [value for each in answers for value in each.value or ()]

    return everywhere


def refuse_different(world: World | None, facts: Mapping[str, str]) -> None:
    """Raises TrainingError, in every process, unless all hold the same facts; names the first that differs."""
    held = everyone(world, dict(facts))
    for name in dict.fromkeys(name for each in held for name in each):
        values = [each.get(name) for each in held]
        other = next((rank for rank, value in enumerate(values) if value != values[0]), None)
        if other is not None:
            raise TrainingError(
                f"the processes do not run the same: {name} is {values[0]!r} in process 0 and {values[other]!r} in "
                f"process {other}. Start all of them with the same settings, seed, model and data"
            )


class _Answer(NamedTuple, Generic[ValueT]):
    """Of one process to the others."""

    value: ValueT | None
    trouble: str | None
    """None = there was none."""


def _meet(world: World, limits: Limits) -> None:
    from torch import distributed
    from torch.distributed.distributed_c10d import PrefixStore
    from torch.distributed.rendezvous import rendezvous

    place = f"{os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}"
    patience = timedelta(seconds=limits.meeting_seconds)
    try:
        store, _, _ = next(rendezvous("env://", world.rank, world.size, timeout=patience))
        store.set(f"upturn/there/{world.rank}", "1")
        store.wait([f"upturn/there/{rank}" for rank in range(world.size)], patience)
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
            f"process {world.rank} of {world.size} could not meet the others at {place} (MASTER_ADDR:MASTER_PORT) "
            f"within {limits.meeting_seconds:g} s: {str(exc).splitlines()[0]}. Check that the address is that of "
            "the first machine, that the port is open and that all processes were started"
        ) from exc


def _is_lost(exc: RuntimeError) -> bool:
    """Whether torch says that another process cannot be reached any more; gloo's errors have no type."""
    from torch.distributed import DistError

    return isinstance(exc, DistError) or "gloo" in str(exc)


def _number(environment: Mapping[str, str], names: Sequence[str]) -> int | None:
    """The first of the variables that is set; None = none is."""
    name = next((name for name in names if environment.get(name)), None)
    if name is None:
        return None
    try:
        return int(environment[name])
    except ValueError as exc:
        raise TrainingError(
            f"{name} must be a whole number, got {environment[name]!r}; launchers set it: leave it to torchrun"
        ) from exc


def _refuse_left_alone(environment: Mapping[str, str]) -> None:
    """Without an MPI host file ``accelerate launch --cpu --num_processes N`` starts one process, without a word."""
    if environment.get("ACCELERATE_USE_CPU", "").lower() == "true" and environment.get("MASTER_ADDR"):
        raise TrainingError(
            "accelerate launch was asked for several processes on CPUs but started one: with --cpu it needs MPI "
            "(--mpirun_hostfile). Use torchrun --nproc-per-node N, or accelerate launch --use_fsdp"
        )


def _device(environment: Mapping[str, str], local_rank: int) -> str:
    import torch

    is_on_cpu = environment.get("ACCELERATE_USE_CPU", "").lower() == "true" or not torch.cuda.is_available()
    if is_on_cpu:
        return "cpu"
    if local_rank >= torch.cuda.device_count():
        raise TrainingError(
            f"this process is number {local_rank} of its machine, which has {torch.cuda.device_count()} CUDA "
            "devices; start one process a device"
        )
    return f"cuda:{local_rank}"


def _broadcast(world: World, value: ValueT | None) -> ValueT | None:
    """The first process's value, in all."""
    from torch import distributed

    box: list[Any] = [_packed(value) if world.is_first else None]  # torch's own collective takes objects
    distributed.broadcast_object_list(box, src=0)
    found: ValueT | None = _unpacked(box[0])
    return found


class _Pickler(pickle.Pickler):
    """Also takes the read-only mappings that records hold."""

    def reducer_override(self, value: object) -> Any:  # pickle's protocol is open-ended
        return (_read_only, (dict(value),)) if isinstance(value, MappingProxyType) else NotImplemented


def _read_only(values: Mapping[Any, Any]) -> Mapping[Any, Any]:  # the class itself cannot be pickled
    return MappingProxyType(values)


def _packed(value: object) -> bytes:
    buffer = io.BytesIO()
    _Pickler(buffer, protocol=pickle.HIGHEST_PROTOCOL).dump(value)
    return buffer.getvalue()


def _unpacked(packed: bytes) -> Any:
    return pickle.loads(packed)  # from a process of this very run
