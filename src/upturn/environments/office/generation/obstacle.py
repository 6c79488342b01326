"""What stands in the way of a task, and the calls that show it."""

from typing import NamedTuple

from upturn.environments.office.state import Reason


class Look(NamedTuple):
    """A call that shows an obstacle. All texts occur as whole words."""

    app: str
    parameters: tuple[str, ...] = ()
    """Texts in the call's parameters."""
    result: tuple[str, ...] = ()
    """Texts in the result; empty = any result without error, since the obstacle is that something is not there."""


class Obstacle(NamedTuple):
    """Why a task cannot be done, where the instruction does not ask who or what is in the way.

    A refusal that states this reason without a name is accepted after one of the looks.
    """

    reason: Reason
    looks: tuple[Look, ...] = ()
    """Empty = none is needed, because another gate requires that the agent knows it."""
