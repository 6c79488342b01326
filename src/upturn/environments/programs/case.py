"""A task for a program with what only its verifier knows."""

from collections.abc import Mapping
from typing import NamedTuple

from upturn.environments.cases import Expected


class ProgramCase(NamedTuple):
    """What ``make`` draws for ``program_kit``."""

    instruction: str
    expected: Expected
    files: Mapping[str, str | bytes]
    """The workspace at the start, by path with ``/``."""


RETURNS = "(instruction, expected) or (instruction, expected, files): a text and one or two mappings"


def read_case(result: object) -> ProgramCase | None:
    """The case in what a ``make`` returned; None if there is none."""
    match result:
        case (str() as instruction, Mapping() as expected) if instruction:
            return ProgramCase(instruction, expected, {})
        case (str() as instruction, Mapping() as expected, Mapping() as files) if instruction:
            return ProgramCase(instruction, expected, files)
    return None
