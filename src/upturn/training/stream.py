"""A weight stream: what an algorithm hands to the trainer, and all that the trainer knows of an algorithm."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol, TypeAlias, Union, runtime_checkable

from upturn.training.row import TrainingRow

if TYPE_CHECKING:
    from torch import Tensor

    from upturn.training.loss import Objective


@dataclass(frozen=True, slots=True, eq=False)
class Stream:
    """Rows with per-token weights, an objective, and the objective's own denominator.

    Its loss is the sum of the objective's token losses over the rows, divided by ``denominator``. That is the
    algorithm's, not the number of tokens in ``rows``: tokens that were left out because they cannot matter may
    still be counted.
    """

    rows: Sequence[TrainingRow]
    objective: "Objective"
    denominator: float


Minibatch: TypeAlias = Sequence[Stream]
"""The streams of one optimiser step; their losses are added."""


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """The part of a run that is done wholly or not at all: a checkpoint lies before or after it."""

    minibatches: Sequence[Minibatch]
    """One optimiser step each, in order; may be empty."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """What the algorithm wants on the curve beside the trainer's own."""


class Algorithm(Protocol):
    """Turns finished rollouts, or stored rows, into weight streams."""

    def unit(self, index: int) -> Unit:
        """The unit with this index. Called once each, in order, with the weights that the units before it left.

        What it does may depend on the index, the seed and the weights only (and on what a ``Stateful`` algorithm
        remembers), so that resuming repeats it exactly.
        """


State: TypeAlias = Mapping[str, Union[float, "Tensor"]]
"""Finite numbers and tensors by name."""
NO_STATE: State = MappingProxyType({})


def joined(parts: Mapping[str, State]) -> State:
    """Several states as one, each under its part's name, which has no dot in it."""
    return {f"{part}.{name}": value for part, state in parts.items() for name, value in state.items()}


def parted(state: State) -> Mapping[str, State]:
    """What ``joined`` joined; a part that had nothing to remember is missing."""
    parts: dict[str, dict[str, float | Tensor]] = {}
    for name, value in state.items():
        part, _, inner = name.partition(".")
        parts.setdefault(part, {})[inner] = value
    return parts


@runtime_checkable
class Stateful(Protocol):
    """An algorithm that remembers more than the weights from one unit to the next: a coefficient that adapts, or
    earlier weights that are still sampled from.

    A checkpoint holds it, so that resuming repeats an undisturbed run exactly.
    """

    def state(self) -> State:
        """All of it, as it is after the units so far. Empty = nothing to remember."""

    def load_state(self, state: State) -> None:
        """Goes back to what ``state`` gave; called at most once, before any unit."""


def state_of(algorithm: Algorithm) -> State:
    """What it remembers; empty where it remembers nothing."""
    return algorithm.state() if isinstance(algorithm, Stateful) else NO_STATE


def restore(algorithm: Algorithm, state: State) -> None:
    """Gives back what ``state_of`` gave."""
    if isinstance(algorithm, Stateful) and state:
        algorithm.load_state(state)
