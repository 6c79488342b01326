"""Weight streams: the interface between algorithms and the trainer, which knows nothing else about them."""

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
    """Rows with per-token weights, an objective, and the objective's denominator.

    Its loss is the sum of the objective's token losses over the rows, divided by ``denominator``. The algorithm
    chooses the denominator, which may count tokens that are not in ``rows`` because their gradient is 0.
    """

    rows: Sequence[TrainingRow]
    objective: "Objective"
    denominator: float
    has_entropies: bool = False
    """True = the objective needs ``TokenBatch.entropies``, which cost time."""


Minibatch: TypeAlias = Sequence[Stream]
"""The streams of one optimiser step; their losses are added."""


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """The atomic part of a run: checkpoints are written between units only."""

    minibatches: Sequence[Minibatch]
    """One optimiser step each, in order; may be empty."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """The algorithm's metrics for the curve."""


class Algorithm(Protocol):
    """Turns finished rollouts, or stored rows, into weight streams."""

    def unit(self, index: int) -> Unit:
        """Returns a unit. Is called once for each index, in order, after the steps of the previous units.

        May depend on the index, the seed and the weights only (and on the state of a ``Stateful`` algorithm), so
        that resuming repeats it exactly."""


State: TypeAlias = Mapping[str, Union[float, "Tensor"]]
"""Finite numbers and tensors by name."""
NO_STATE: State = MappingProxyType({})


def join_states(states: Mapping[str, State]) -> State:
    """Returns one state from several, with each part's name, which has no dot, as a prefix."""
    return {f"{part}.{name}": value for part, state in states.items() for name, value in state.items()}


def split_state(state: State) -> Mapping[str, State]:
    """Returns the arguments of ``join_states``, without parts that have no state."""
    states: dict[str, dict[str, float | Tensor]] = {}
    for name, value in state.items():
        part, _, inner = name.partition(".")
        states.setdefault(part, {})[inner] = value
    return states


@runtime_checkable
class Stateful(Protocol):
    """An algorithm with a state other than the weights, such as an adaptive coefficient or earlier weights.

    Checkpoints contain it, so that resuming repeats an uninterrupted run exactly.
    """

    def state(self) -> State:
        """Returns the whole state after the units so far; may be empty."""

    def load_state(self, state: State) -> None:
        """Restores a state from ``state``; is called at most once, before any unit."""


def state_of(algorithm: Algorithm) -> State:
    """Returns the algorithm's state; empty if it has none."""
    return algorithm.state() if isinstance(algorithm, Stateful) else NO_STATE


def restore_state(algorithm: Algorithm, state: State) -> None:
    """Restores a state from ``state_of``."""
    if isinstance(algorithm, Stateful) and state:
        algorithm.load_state(state)
