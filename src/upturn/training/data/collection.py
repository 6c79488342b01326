"""An iteration's groups: collected once, or with dynamic sampling until enough of them have a signal."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from upturn.errors import TrainingError
from upturn.training.advantage import Advantage, GroupAdvantages, ScoredGroup
from upturn.training.advantages import Scale, rescaled
from upturn.training.policy_settings import DynamicSamplingSettings
from upturn.training.stream import NO_STATE, Algorithm, State, Unit, joined, parted, restore, state_of


class Collect(Protocol):
    """Samples groups with the model's current weights."""

    def __call__(self, iteration: int, /) -> Sequence[ScoredGroup]:
        """The groups of an iteration, from 0. May depend on it, the seed and the weights only."""


@runtime_checkable
class StatefulCollect(Collect, Protocol):
    """A collect that is more than a function: what it gives depends on what came before, or on stored data."""

    def state(self) -> State:
        """All that it remembers, as it is after the iterations so far. Empty = nothing."""

    def load_state(self, state: State) -> None:
        """Goes back to what ``state`` gave; called at most once, before any iteration."""

    def metrics(self) -> Mapping[str, float]:
        """What it wants on the curve, of the iteration that was collected last."""

    def identity(self) -> Mapping[str, object]:
        """By name, what decides the groups beside seed and weights: a checkpoint of another is refused."""


class Collecting:
    """An algorithm and the collect that it learns from: a checkpoint holds what both remember."""

    def __init__(self, algorithm: Algorithm, collect: StatefulCollect) -> None:
        """``collect``: the one that the algorithm calls, itself or behind something else."""
        self._algorithm = algorithm
        self._collect = collect

    def unit(self, index: int) -> Unit:
        """The algorithm's, with the metrics of both."""
        unit = self._algorithm.unit(index)
        return Unit(unit.minibatches, {**unit.metrics, **self._collect.metrics()})

    def state(self) -> State:
        """Of both."""
        return joined({"algorithm": state_of(self._algorithm), "collect": self._collect.state()})

    def load_state(self, state: State) -> None:
        """Gives each its part."""
        parts = parted(state)
        restore(self._algorithm, parts.get("algorithm", NO_STATE))
        self._collect.load_state(parts.get("collect", NO_STATE))


class Refill(Protocol):
    """Samples further groups for an iteration whose groups had too little signal."""

    def __call__(self, iteration: int, attempt: int, /) -> Sequence[ScoredGroup]:
        """Round ``attempt`` of the iteration, from 1. May depend on both, the seed and the weights only.

        Trajectories need ids of their own, other than those of earlier rounds.
        """


class ComparedGroup(NamedTuple):
    """A group and what it teaches."""

    group: ScoredGroup
    advantages: GroupAdvantages


class Collection(NamedTuple):
    """What one iteration sampled."""

    sampled: tuple[ComparedGroup, ...]
    """All of it, in order, each group compared by itself."""
    used: tuple[ComparedGroup, ...]
    """What the loss is an average over: all, or those with a signal where sampling is dynamic; on one scale."""
    rounds: int | None
    """Of dynamic sampling; None = there is none."""


class Refilling(NamedTuple):
    """Dynamic sampling and where it samples from."""

    settings: DynamicSamplingSettings
    refill: Refill


class Collector:
    """Collects an iteration's groups, compares the members of each and puts all on one scale."""

    def __init__(
        self, collect: Collect, advantage: Advantage, scale: Scale, refilling: Refilling | None = None
    ) -> None:
        """``refilling``: None = an iteration collects once."""
        self.collect = collect
        self.advantage = advantage
        self.scale: Scale = scale
        self.refilling = refilling

    def collection(self, iteration: int) -> Collection:
        """The iteration's groups. Raises TrainingError when there is no trajectory, or one that cannot be used."""
        groups = self._compared(self.collect(iteration))
        if not any(each.group.members for each in groups):
            raise TrainingError(f"iteration {iteration} collected no trajectories; collect at least one group")
        rounds, used = None, groups
        if self.refilling is not None:
            settings, refill = self.refilling
            rounds, wanted = 1, len(groups) if settings.groups is None else settings.groups
            while rounds < settings.max_rounds and len(_informative(groups)) < wanted:
                groups += self._compared(refill(iteration, rounds))
                rounds += 1
            used = _informative(groups)
        check_ids(each.group for each in groups)
        chosen = [each.group for each in used]
        scaled = rescaled(chosen, [each.advantages for each in used], by=self.scale)
        return Collection(tuple(groups), tuple(map(ComparedGroup, chosen, scaled)), rounds)

    def _compared(self, groups: Sequence[ScoredGroup]) -> list[ComparedGroup]:
        for group in groups:
            check_group(group)
        return [ComparedGroup(group, self.advantage(group)) for group in groups]


def _informative(groups: Sequence[ComparedGroup]) -> list[ComparedGroup]:
    return [each for each in groups if each.advantages.is_informative]


def check_group(group: ScoredGroup) -> None:
    """Raises TrainingError where an attempt is at another task than its group's."""
    for member in group.members:
        if member.trajectory.task_id != group.task.id:
            raise TrainingError(
                f"trajectory {member.trajectory.id!r} is an attempt at task {member.trajectory.task_id!r} but "
                f"stands in a group of task {group.task.id!r}; a group holds attempts at one task"
            )


def check_ids(groups: Iterable[ScoredGroup]) -> None:
    """Raises TrainingError where two attempts have one id: rows are joined to rollouts by it."""
    seen: set[str] = set()
    for group in groups:
        for member in group.members:
            name = member.trajectory.id
            if name in seen:
                raise TrainingError(f"two trajectories of one iteration have the id {name!r}; give each its own")
            seen.add(name)
