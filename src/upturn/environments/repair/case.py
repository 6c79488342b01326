"""A task of code repair, with what only its verifier knows."""

import ast
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from upturn.environments.repair.mutation import Mutant
from upturn.environments.repair.source import Result


class Call(NamedTuple):
    """One call of a function, and what the right function gives."""

    module: str
    """``roman.lists``."""
    function: str
    arguments: str
    """As Python text: a tuple."""
    expected: Result

    @property
    def text(self) -> str:
        """``is_numeral('IV')``."""
        return f"{self.function}({', '.join(map(repr, ast.literal_eval(self.arguments)))})"


class Bug(NamedTuple):
    """A mutant of one function."""

    path: str
    module: str
    function: str
    mutant: Mutant


class RepairCase(NamedTuple):
    """What a task is made of."""

    instruction: str
    package: str
    files: Mapping[str, str]
    """The workspace at the start: the package with its bugs, and the public tests."""
    fixed: Mapping[str, str]
    """The right source of each file with a bug."""
    bugs: Sequence[Bug]
    public: Sequence[Call]
    """The calls of the public tests; those that fail at the start first."""
    public_failing: int
    """How many of ``public`` fail at the start."""
    hidden: Sequence[Call]
    """Others; those that show a bug first."""
    failing: int
    """How many of ``hidden`` show a bug."""
    is_impossible: bool = False
    """True = a public test expects what the docstrings exclude."""
