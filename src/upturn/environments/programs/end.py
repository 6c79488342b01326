"""The end of a program and the contract of the environments that it ends."""

from pathlib import Path
from typing import Protocol, runtime_checkable

from upturn.environments.environment import Environment, Step
from upturn.records import record


@record
class ProgramEnd:
    """How a program ended."""

    answer: str = ""
    """Its final answer; a command's standard output."""
    exit_code: int | None = None
    """None = it has none: it is a function, or a limit ended it."""
    errors: str = ""
    """A command's standard error, or a function's exception."""


@runtime_checkable
class ProgramEnvironment(Environment, Protocol):
    """An environment with a folder that a program works in. The program ends the task by its own end."""

    def folder(self) -> Path:
        """The program's working folder: it exists between ``reset`` and ``close``; raises WorldError otherwise."""

    def finish(self, end: ProgramEnd) -> Step:
        """Ends the task; what the folder holds now is the result. Nothing may write to it any more."""

    def close(self) -> None:
        """Removes the folder; ``state`` stays as it was. Does nothing the second time."""
