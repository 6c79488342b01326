"""Several processes that train one model from the command line: rank 0 runs the pipeline; the other ranks join
training.

Only training is shared. The first process holds the journal, the pool and the agents; it attempts tasks, judges,
examines, prints and saves, as a single one does. The others (peers) open nothing: they wait until the first one
trains, load the same weights, and take part in that training with their shards. What samples or evaluates during it
happens in the first process, with a whole copy of the weights that is brought up to date each time.
"""

import gc
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, ParamSpec

from upturn.config import AdapterSettings, Config
from upturn.errors import ConfigError, TrainingError, UpturnError, error_text
from upturn.loop.rollouts import PolicyWorker, add_named_adapter
from upturn.loop.run import configure_torch
from upturn.rewards import Similarity
from upturn.training import ScoredGroup, State, TrainingOutcome
from upturn.training.algorithms.grpo import GrpoSettings
from upturn.training.algorithms.online_dpo import OnlineDpoSettings
from upturn.training.data import StatefulCollect
from upturn.training.distributed import Limits, World, all_gather, broadcast_first, connect, first_process_only
from upturn.training.runs import RunOptions

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from upturn.training.algorithms.world_model import Predictor
    from upturn.training.optimisation import FullCopy

Given = ParamSpec("Given")

FIRST_LIMITS = Limits()
"""Of the first process, which waits for peers only while all compute the same: one that hangs is missed soon."""
PEER_LIMITS = Limits(silence_seconds=24 * 3600.0)
"""Of the others, who hear nothing while the first one samples or examines. They need not miss one that hangs: the
first one does, ends, and is missed at once."""
RANK0_ERROR_GRACE_SECONDS = 5.0
"""That a peer waits before it ends in failure: launchers end all processes as soon as one has, and the first one
has something to say."""


def jointly(
    world: World | None,
    worker: PolicyWorker,
    run: "Callable[Concatenate[PreTrainedModel, Given], TrainingOutcome]",
    *given: Given.args,
    **named: Given.kwargs,
) -> TrainingOutcome:
    """``run(worker.model, *given, **named)``, by all processes of the world; to be called in the first one.

    What is given must be known by value (rows, settings, a seed), or be a function that the first process calls for
    all. The worker must hold its version's weights, and afterwards holds the trained ones. None = one process.
    """
    if world is None:
        return run(worker.model, *given, **named)
    import torch

    work = _Work(
        run,
        worker.version.model,
        worker.adapter,
        tuple(_word(each) for each in given),
        {name: _word(each) for name, each in named.items()},
        torch.get_num_threads(),
    )
    broadcast_first(world, lambda: work)
    return _done(work, world, _Own(worker.model, given, named))


@contextmanager
def lead_ranks(world: World | None) -> Iterator[None]:
    """Inside, peers may be called for; afterwards they are told that all is done. None = there are none."""
    with connect(world, FIRST_LIMITS):
        yield
        broadcast_first(world, lambda: None)


def follow_rank0(world: World) -> bool:
    """The life of a peer: takes part in whatever the first process trains, until that one is done.

    True when that one ended well; False when it was stopped or did not, which it says itself: what goes wrong in
    training goes wrong in all processes. Raises TrainingError where the others cannot be met.
    """
    has_met = False
    try:
        with connect(world, PEER_LIMITS):
            has_met = True
            while (work := broadcast_first(world, _nothing)) is not None:
                with configure_torch(work.threads):
                    _done(work, world, None)
                gc.collect()  # models in shards refer to themselves
    except UpturnError:
        if not has_met:
            raise
        time.sleep(RANK0_ERROR_GRACE_SECONDS)
        return False
    except KeyboardInterrupt:
        return False
    return True


def refuse_together(config: Config, algorithm: str) -> None:
    """Raises ConfigError for what several processes cannot do together."""
    staleness = config.section(GrpoSettings).staleness
    if algorithm == "grpo" and staleness:
        raise ConfigError(
            [
                f"grpo.staleness = {staleness} samples while one process trains; "
                "several processes take turns: leave it out, or start one process"
            ]
        )


class _Asked(NamedTuple):
    """Stands for a function that only the first process has."""


class _Evaluates(NamedTuple):
    """Stands for an evaluation that only the first process has."""


class _Collects(NamedTuple):
    """Stands for a ``StatefulCollect`` there."""


class _Predicts(NamedTuple):
    """Stands for a ``Predictor`` there."""

    similarity: Similarity


class _Work(NamedTuple):
    """A training run, as peers hear of it."""

    run: Callable[..., TrainingOutcome]
    model: str
    """What to load before training."""
    adapter: AdapterSettings | None
    """To be put on it; None = the whole model is trained."""
    given: tuple[object, ...]
    named: Mapping[str, object]
    threads: int


class _Own(NamedTuple):
    """What the first process has of it, and nobody else."""

    model: "PreTrainedModel"
    """To be kept like the trained one."""
    given: tuple[Any, ...]  # the run's own arguments, of which some are functions
    named: Mapping[str, Any]


def _nothing() -> _Work | None:
    raise AssertionError("only the first process says what is to be done")


def _word(value: object) -> object:
    """What the others are told of an argument."""
    from upturn.training.algorithms.world_model import Predictor

    if isinstance(value, Predictor):
        return _Predicts(value.similarity)
    if isinstance(value, StatefulCollect):
        return _Collects()
    if isinstance(value, RunOptions):  # its points are reported by the first process alone
        return replace(value, evaluate=None if value.evaluate is None else _Evaluates(), progress=None)
    return _Asked() if callable(value) else value


def _done(work: _Work, world: World, own: _Own | None) -> TrainingOutcome:
    """The run's outcome, with the weights where they belong."""
    from upturn.training.distributed import shard
    from upturn.training.optimisation import FullCopy

    model = _loaded(work, world)
    whole = FullCopy(model, world, copy=None if own is None else own.model)
    named: dict[str, Any] = {}
    if _trains_critic(work):
        from upturn.training.optimisation import value_model

        named["critic"] = value_model(model)
        shard(named["critic"], world)
    shard(model, world)
    there = _There(world, whole)
    given = [
        there.answering(value, None if own is None else own.given[place]) for place, value in enumerate(work.given)
    ]
    named |= {
        name: there.answering(value, None if own is None else own.named[name]) for name, value in work.named.items()
    }
    outcome = work.run(model, *given, **named)
    whole.refresh()
    return outcome


def _trains_critic(work: _Work) -> bool:
    """True when a value model is trained beside the model, which must be made before that one is sharded."""
    from upturn.training.algorithms.ppo import run_ppo

    rounds = (each for each in work.given if isinstance(each, OnlineDpoSettings))
    return work.run is run_ppo or any(each.critic is not None for each in rounds)


def _loaded(work: _Work, world: World) -> "PreTrainedModel":
    """The model with its adapter, in every process; raises TrainingError in all where one does not have it."""
    from upturn.models import load_local

    try:
        found = load_local(work.model).model
        if work.adapter is not None:
            add_named_adapter(found, work.adapter, work.model)
    except Exception as exc:
        all_gather(world, error_text(exc))
        raise
    for rank, trouble in enumerate(all_gather(world, "")):
        if trouble:
            raise TrainingError(f"process {rank} cannot load the model {work.model!r}: {trouble}")
    return found


class _There(NamedTuple):
    """The first process, as all ask it."""

    world: World
    whole: "FullCopy"

    def answering(self, word: object, own: Any) -> object:
        """The argument that a word stands for, in any process. ``own``: what it is; None = this is another one."""
        match word:
            case _Asked():
                return self.asked(own)
            case _Collects():
                return _SharedCollect(own, self)
            case _Predicts(similarity):
                return _SharedPredictor(own, self, similarity)
            case RunOptions():
                return self.options(word, own)
            case _:
                return word

    def options(self, word: RunOptions, own: RunOptions | None) -> RunOptions:
        """The run's, with an evaluation that the first process does for all."""
        if isinstance(word.evaluate, _Evaluates):
            word = replace(word, evaluate=self.asked(None if own is None else own.evaluation))
        return word if own is None else replace(word, progress=own.progress)

    def asked(self, own: Callable[..., Any] | None) -> Callable[..., Any]:
        """The function for all, by the weights as they are."""
        return first_process_only(_absent if own is None else own, self.world, self.whole.refresh)


def _absent(*_: object) -> object:
    raise AssertionError("only the first process has it")


class _SharedCollect:
    """A ``StatefulCollect`` that lives in the first process."""

    def __init__(self, own: StatefulCollect | None, there: _There) -> None:
        self._collect = there.asked(own)
        self._own = own
        self._world = there.world

    def __call__(self, iteration: int, /) -> Sequence[ScoredGroup]:
        found: Sequence[ScoredGroup] = self._collect(iteration)
        return found

    def state(self) -> State:
        return broadcast_first(self._world, lambda: self._first.state())  # noqa: PLW0108  # elsewhere there is none

    def load_state(self, state: State) -> None:
        broadcast_first(self._world, lambda: self._first.load_state(state))

    def metrics(self) -> Mapping[str, float]:
        return broadcast_first(self._world, lambda: self._first.metrics())  # noqa: PLW0108

    def identity(self) -> Mapping[str, object]:
        return broadcast_first(self._world, lambda: self._first.identity())  # noqa: PLW0108

    @property
    def _first(self) -> StatefulCollect:
        assert self._own is not None
        return self._own


class _SharedPredictor:
    """A ``Predictor`` that lives in the first process; what was predicted is compared in each."""

    def __init__(self, own: "Predictor | None", there: _There, similarity: Similarity) -> None:
        from upturn.training.algorithms.world_model import Predictor

        self.similarity = similarity
        self.predict = there.asked(None if own is None else own.predict)
        nobody: Any = None  # comparing asks no model
        self.score = Predictor(nobody, nobody, similarity).score
