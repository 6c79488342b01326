"""Tasks for programs: a folder to work in, an end, and a judgement of what the program left.

Start with ``kit`` (``program_kit``: a kit of two functions) and ``end`` (the contract between a program's rollout
and its environment). ``workspace`` writes, reads and stores files within limits; ``evaluators`` are ready-made
judgements, ``check`` and ``pytest_run`` run commands for them. Not here: running programs
(``upturn.agents``).
"""

from upturn.environments.programs.check import run_check
from upturn.environments.programs.end import ProgramEnd, ProgramEnvironment
from upturn.environments.programs.evaluators import EVALUATORS
from upturn.environments.programs.grading import ATTEMPT_PARTS, FinishedAttempt, Graded
from upturn.environments.programs.kit import ProgramKit, Solved, program_kit
from upturn.environments.programs.pytest_run import count_tests, run_pytest
from upturn.environments.programs.temporary_folder import TemporaryFolder, empty_folder
from upturn.environments.programs.workspace import (
    Workspace,
    WorkspaceLimits,
    checked_path,
    encoded_files,
    read_workspace,
    write_workspace,
)

__all__ = [
    "ATTEMPT_PARTS",
    "EVALUATORS",
    "FinishedAttempt",
    "Graded",
    "ProgramEnd",
    "ProgramEnvironment",
    "ProgramKit",
    "Solved",
    "TemporaryFolder",
    "Workspace",
    "WorkspaceLimits",
    "checked_path",
    "count_tests",
    "empty_folder",
    "encoded_files",
    "program_kit",
    "read_workspace",
    "run_check",
    "run_pytest",
    "write_workspace",
]
