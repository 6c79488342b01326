"""Collective calls by name: functions that only rank 0 has, called by all ranks together."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from upturn.errors import TrainingError
from upturn.training.distributed.process_group import World, broadcast_first


class Rank0Calls:
    """Calls functions on rank 0 and returns their results on every rank, which make the same calls in one order."""

    def __init__(
        self, world: World | None, functions: Mapping[str, Callable[..., Any]], before: Callable[[], None]
    ) -> None:
        """``functions``: by name; they are called on rank 0 only, and other ranks pass none. ``before`` is called
        on every rank before each call, such as ``FullCopy.refresh``."""
        self._world = world
        self._functions = functions
        self._before = before

    def __call__(self, name: str, *arguments: Any, **named: Any) -> Any:
        """Returns the result of the function ``name`` on rank 0.

        An exception propagates on rank 0, and is a TrainingError on the others. Raises TrainingError on a rank that
        calls another function than rank 0.
        """
        self._before()
        called, result = broadcast_first(self._world, lambda: (name, self._functions[name](*arguments, **named)))
        if called != name:
            raise TrainingError(
                f"the processes do not run the same: rank 0 called {called!r}, this one {name!r}. Start all of "
                "them with the same settings, model and data"
            )
        return result

    def function(self, name: str) -> Callable[..., Any]:
        """Returns the function ``name``, callable on every rank."""
        return partial(self, name)
