"""Several processes that train one model from the command line: rank 0 runs the pipeline; the other ranks join
training.

Only training is shared. Rank 0 holds the journal, the pool and the agents: it samples, verifies, evaluates, prints
and saves. The other ranks open nothing. They wait for a training run, load the same weights, and train their
shards. Whatever samples or evaluates during training is a function of rank 0, which all ranks call together by its
name; it uses a full copy of the weights that is refreshed before each call."""

import gc
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from upturn.config import AdapterSettings
from upturn.errors import TrainingError, UpturnError, error_text
from upturn.loop.rollouts import PolicyWorker, add_named_adapter
from upturn.loop.run import configure_torch
from upturn.rewards import Similarity
from upturn.training import ScoredGroup, State, TrainingOutcome
from upturn.training.data import Collect, StatefulCollect
from upturn.training.distributed import Limits, Rank0Calls, World, all_gather, broadcast_first, connect
from upturn.training.runs import RunOptions

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from upturn.training.algorithms.world_model import PredictionSource

RANK0_LIMITS = Limits()
"""Rank 0 waits for other ranks only while all compute the same, so it soon notices one that hangs."""
OTHER_LIMITS = Limits(silence_seconds=24 * 3600.0)
"""Other ranks receive nothing while rank 0 samples or evaluates. They need not notice a rank that hangs: rank 0
does, ends, and its end is noticed at once."""
RANK0_ERROR_GRACE_SECONDS = 5.0
"""Delay before another rank exits with a failure. Launchers stop all processes as soon as one has failed, and rank
0 needs time to print the error."""


class Proxy(Protocol):
    """Stands for an argument of rank 0 on every rank; picklable."""

    def connect(self, calls: Rank0Calls, model: "PreTrainedModel", world: World) -> object:
        """Returns the argument for this rank. ``model`` is not sharded yet."""


@dataclass(frozen=True, slots=True)
class Rank0:
    """An argument of a run that cannot be sent to the other ranks."""

    value: Any  # an argument of any run
    """The argument for a run in a single process."""
    proxy: Proxy
    functions: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    """The functions that the proxy calls on rank 0, by name."""


def rank0_function(name: str, function: Callable[..., Any]) -> Rank0:
    """Returns a function that only rank 0 has; ``name`` is unique within a run."""
    return Rank0(function, _FunctionProxy(name), {name: function})


def rank0_collect(collect: Collect) -> Rank0:
    """Returns a collect that only rank 0 has."""
    if not isinstance(collect, StatefulCollect):
        return rank0_function("collect", collect)
    functions: dict[str, Callable[..., Any]] = {
        "collect": collect,
        "collect.state": collect.state,
        "collect.load_state": collect.load_state,
        "collect.metrics": collect.metrics,
        "collect.identity": collect.identity,
    }
    return Rank0(collect, _CollectProxy(), functions)


def rank0_predictor(predictor: "PredictionSource") -> Rank0:
    """Returns a world model's predictor that samples on rank 0; scores are computed on every rank."""
    return Rank0(predictor, _PredictorProxy(predictor.similarity), {"predict": predictor.predict})


def train_on_all_ranks(
    world: World | None,
    worker: PolicyWorker,
    run: Callable[..., TrainingOutcome],
    *arguments: object,
    **named: object,
) -> TrainingOutcome:
    """Calls ``run(worker.model, *arguments, **named)`` on all ranks; to be called on rank 0.

    Arguments are sent by value, except ``Rank0`` ones and the callbacks of ``RunOptions``. The worker must hold its
    version's weights, and holds the trained ones afterwards. ``world`` None means a single process.
    """
    if world is None:
        local = {name: _local(value) for name, value in named.items()}
        return run(worker.model, *map(_local, arguments), **local)
    import torch

    functions = dict[str, Callable[..., Any]]()
    sent = tuple(_to_send(value, functions) for value in arguments)
    sent_named = {name: _to_send(value, functions) for name, value in named.items()}
    job = _Job(run, worker.version.model, worker.adapter, sent, sent_named, torch.get_num_threads(), world.device)
    broadcast_first(world, lambda: job)
    progress = next((value.progress for value in arguments if isinstance(value, RunOptions)), None)
    return _run(job, world, _Rank0State(worker.model, functions, progress))


@contextmanager
def lead_ranks(world: World | None) -> Iterator[None]:
    """Lets the other ranks join training runs within the context, and ends them after it; None means a single
    process."""
    with connect(world, RANK0_LIMITS):
        yield
        broadcast_first(world, lambda: None)


def follow_rank0(world: World) -> bool:
    """Joins the training runs of rank 0 until it ends; True if it ended well.

    False if it was stopped or failed. Rank 0 reports the error, since what fails in training fails on all ranks.
    Raises TrainingError if the processes cannot connect.
    """
    is_connected = False
    try:
        with connect(world, OTHER_LIMITS):
            is_connected = True
            while (job := broadcast_first(world, _no_job)) is not None:
                device = "cpu" if job.device == "cpu" else world.device
                with configure_torch(job.threads):
                    _run(job, replace(world, device=device), None)
                gc.collect()  # sharded models are reference cycles
    except UpturnError:
        if not is_connected:
            raise
        time.sleep(RANK0_ERROR_GRACE_SECONDS)
        return False
    except KeyboardInterrupt:
        return False
    return True


class _Job(NamedTuple):
    """A training run as rank 0 sends it."""

    run: Callable[..., TrainingOutcome]
    model: str
    """The model to load."""
    adapter: AdapterSettings | None
    """None means that the whole model is trained."""
    arguments: tuple[object, ...]
    named: Mapping[str, object]
    threads: int
    device: str
    """Of rank 0."""


class _Rank0State(NamedTuple):
    """The part of a run that only rank 0 has."""

    model: "PreTrainedModel"
    """Is kept equal to the trained one."""
    functions: Mapping[str, Callable[..., Any]]
    progress: Callable[..., None] | None


def _no_job() -> _Job | None:
    raise AssertionError("only rank 0 sends jobs")


def _local(value: object) -> object:
    return value.value if isinstance(value, Rank0) else value


def _to_send(value: object, functions: dict[str, Callable[..., Any]]) -> object:
    """Returns what other ranks receive of an argument; adds its functions to ``functions``."""
    if isinstance(value, Rank0):
        functions |= value.functions
        return value.proxy
    if isinstance(value, RunOptions):
        evaluate: Any = value.evaluate
        if callable(evaluate):
            functions["evaluate"] = evaluate
            evaluate = _FunctionProxy("evaluate")
        return replace(value, evaluate=evaluate, progress=None)
    return value


def _run(job: _Job, world: World, rank0: _Rank0State | None) -> TrainingOutcome:
    """Trains on this rank. ``rank0``: None on other ranks."""
    from upturn.training.distributed import shard
    from upturn.training.optimisation import FullCopy

    model = _load(job, world)
    full_copy = FullCopy(model, world, copy=None if rank0 is None else rank0.model)
    calls = Rank0Calls(world, {} if rank0 is None else rank0.functions, full_copy.refresh)

    def connected(value: Any) -> Any:  # an argument of any run
        if isinstance(value, RunOptions):
            evaluate = connected(value.evaluate)
            return replace(value, evaluate=evaluate, progress=None if rank0 is None else rank0.progress)
        return value.connect(calls, model, world) if hasattr(type(value), "connect") else value

    arguments = [connected(value) for value in job.arguments]
    named = {name: connected(value) for name, value in job.named.items()}
    shard(model, world)
    outcome = job.run(model, *arguments, **named)
    full_copy.refresh()
    return outcome


def _load(job: _Job, world: World) -> "PreTrainedModel":
    """Returns the model with its adapter; raises TrainingError on all ranks if one cannot load it."""
    from upturn.models import load_local

    try:
        model = load_local(job.model, device=world.device).model
        if job.adapter is not None:
            add_named_adapter(model, job.adapter, job.model)
    except Exception as exc:
        all_gather(world, error_text(exc))
        raise
    for rank, error in enumerate(all_gather(world, "")):
        if error:
            raise TrainingError(f"process {rank} cannot load the model {job.model!r}: {error}")
    return model


@dataclass(frozen=True, slots=True)
class _FunctionProxy:
    name: str

    def connect(self, calls: Rank0Calls, _model: "PreTrainedModel", _world: World) -> Callable[..., Any]:
        return calls.function(self.name)


@dataclass(frozen=True, slots=True)
class _CollectProxy:
    def connect(self, calls: Rank0Calls, _model: "PreTrainedModel", _world: World) -> StatefulCollect:
        return _Rank0Collect(calls)


@dataclass(frozen=True, slots=True)
class _PredictorProxy:
    similarity: Similarity

    def connect(self, calls: Rank0Calls, _model: "PreTrainedModel", _world: World) -> "PredictionSource":
        return _Rank0Predictor(self.similarity, calls.function("predict"))


@dataclass(frozen=True, slots=True)
class _CriticProxy:
    def connect(self, _calls: Rank0Calls, model: "PreTrainedModel", world: World) -> "PreTrainedModel":
        from upturn.training.distributed import shard
        from upturn.training.optimisation import value_model

        critic = value_model(model)
        shard(critic, world)
        return critic


SHARDED_CRITIC = Rank0(None, _CriticProxy())
"""The critic of a run: a value model that every rank makes before the model is sharded. In a single process the run
makes it itself."""


class _Rank0Predictor(NamedTuple):
    """A ``PredictionSource`` of rank 0."""

    similarity: Similarity
    predict: Callable[..., Any]  # called with the arguments of the protocol


class _Rank0Collect:
    """A ``StatefulCollect`` of rank 0."""

    def __init__(self, calls: Rank0Calls) -> None:
        self._calls = calls

    def __call__(self, iteration: int, /) -> Sequence[ScoredGroup]:
        groups: Sequence[ScoredGroup] = self._calls("collect", iteration)
        return groups

    def state(self) -> State:
        state: State = self._calls("collect.state")
        return state

    def load_state(self, state: State) -> None:
        self._calls("collect.load_state", state)

    def metrics(self) -> Mapping[str, float]:
        metrics: Mapping[str, float] = self._calls("collect.metrics")
        return metrics

    def identity(self) -> Mapping[str, object]:
        identity: Mapping[str, object] = self._calls("collect.identity")
        return identity
