"""The groups of an iteration: sampled once, or with dynamic sampling until enough of them have a signal."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from upturn.errors import TrainingError
from upturn.training.advantage import Advantage, GroupAdvantages, ScoredGroup
from upturn.training.advantages import Scale, rescaled
from upturn.training.policy_settings import DynamicSamplingSettings
from upturn.training.stream import (
    NO_STATE,
    Algorithm,
    State,
    Unit,
    join_states,
    restore_state,
    split_state,
    state_of,
)


class Collect(Protocol):
    """Samples groups with the model's current weights."""

    def __call__(self, iteration: int, /) -> Sequence[ScoredGroup]:
        """Returns the groups of an iteration, from 0. May depend on it, the seed and the weights only."""


@runtime_checkable
class StatefulCollect(Collect, Protocol):
    """A collect whose groups depend on earlier iterations, or on stored data."""

    def state(self) -> State:
        """Returns the whole state after the iterations so far; may be empty."""

    def load_state(self, state: State) -> None:
        """Restores a state from ``state``; is called at most once, before any iteration."""

    def metrics(self) -> Mapping[str, float]:
        """Returns metrics of the last iteration for the curve."""

    def identity(self) -> Mapping[str, object]:
        """Returns what determines the groups in addition to seed and weights; a checkpoint of another is
        refused."""


def attach_collect(algorithm: Algorithm, collect: Collect) -> tuple[Algorithm, Mapping[str, object]]:
    """Returns the algorithm and the collect's identity; a ``StatefulCollect`` adds its metrics and state.

    ``collect``: the one that the algorithm calls, directly or wrapped.
    """
    if isinstance(collect, StatefulCollect):
        return _CollectingAlgorithm(algorithm, collect), collect.identity()
    return algorithm, {}


class _CollectingAlgorithm:
    def __init__(self, algorithm: Algorithm, collect: StatefulCollect) -> None:
        self._algorithm = algorithm
        self._collect = collect

    def unit(self, index: int) -> Unit:
        unit = self._algorithm.unit(index)
        return Unit(unit.minibatches, {**unit.metrics, **self._collect.metrics()})

    def state(self) -> State:
        return join_states({"algorithm": state_of(self._algorithm), "collect": self._collect.state()})

    def load_state(self, state: State) -> None:
        states = split_state(state)
        restore_state(self._algorithm, states.get("algorithm", NO_STATE))
        self._collect.load_state(states.get("collect", NO_STATE))


class Refill(Protocol):
    """Samples further groups for an iteration whose groups have too little signal."""

    def __call__(self, iteration: int, round_index: int, /) -> Sequence[ScoredGroup]:
        """Returns the groups of a further round, from 1. May depend on its arguments, the seed and the weights
        only.

        Trajectories need other ids than those of earlier rounds."""


class ComparedGroup(NamedTuple):
    """A group with its advantages."""

    group: ScoredGroup
    advantages: GroupAdvantages


class CollectedGroups(NamedTuple):
    """The groups of one iteration."""

    sampled: tuple[ComparedGroup, ...]
    """All groups, in order, before scaling."""
    used: tuple[ComparedGroup, ...]
    """The groups that the loss is averaged over: all, or with dynamic sampling those with a signal; scaled."""
    rounds: int | None
    """Rounds of dynamic sampling; None = not dynamic."""


class Collector:
    """Samples an iteration's groups and computes their advantages on one scale."""

    def __init__(
        self,
        collect: Collect,
        advantage: Advantage,
        scale: Scale,
        *,
        sampling: DynamicSamplingSettings | None = None,
        refill: Refill | None = None,
    ) -> None:
        """``sampling`` and ``refill``: both for dynamic sampling, else None."""
        self._collect = collect
        self._advantage = advantage
        self._scale: Scale = scale
        self._sampling = sampling
        self._refill = refill

    def collect(self, iteration: int) -> CollectedGroups:
        """Returns the iteration's groups. Raises TrainingError for no trajectories, or unusable ones."""
        groups = self._compare(self._collect(iteration))
        if not any(compared.group.members for compared in groups):
            raise TrainingError(f"iteration {iteration} collected no trajectories; collect at least one group")
        rounds, used = None, groups
        if self._sampling is not None and self._refill is not None:
            rounds, wanted = 1, self._sampling.groups or len(groups)
            while rounds < self._sampling.max_rounds and len(_informative(groups)) < wanted:
                groups += self._compare(self._refill(iteration, rounds))
                rounds += 1
            used = _informative(groups)
            check_groups([compared.group for compared in groups])
        used_groups = [compared.group for compared in used]
        scaled = rescaled(used_groups, [compared.advantages for compared in used], by=self._scale)
        return CollectedGroups(tuple(groups), tuple(map(ComparedGroup, used_groups, scaled)), rounds)

    def _compare(self, groups: Sequence[ScoredGroup]) -> list[ComparedGroup]:
        check_groups(groups)
        return [ComparedGroup(group, self._advantage(group)) for group in groups]


def _informative(groups: Sequence[ComparedGroup]) -> list[ComparedGroup]:
    return [compared for compared in groups if compared.advantages.is_informative]


def check_groups(groups: Sequence[ScoredGroup]) -> None:
    """Raises TrainingError for a trajectory of another task than its group's, and for two with the same id."""
    ids: set[str] = set()
    for group in groups:
        for trajectory in (member.trajectory for member in group.members):
            if trajectory.task_id != group.task.id:
                raise TrainingError(
                    f"trajectory {trajectory.id!r} of task {trajectory.task_id!r} is in a group of task "
                    f"{group.task.id!r}; a group has trajectories of one task"
                )
            if trajectory.id in ids:
                raise TrainingError(
                    f"two trajectories of one iteration have the id {trajectory.id!r}; ids are unique"
                )
            ids.add(trajectory.id)
