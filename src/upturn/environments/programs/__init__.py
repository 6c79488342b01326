"""Tasks for programs: a folder to work in, an end, and a judgement of what the program left.

Start with ``kit`` (``program_kit``: a kit of two functions) and ``end`` (the contract between a program's rollout
and its environment). ``workspace`` writes, reads and stores files within limits. Not here: running programs
(``upturn.agents``).
"""

from upturn.environments.programs.end import ProgramEnd, ProgramEnvironment
from upturn.environments.programs.grading import ATTEMPT_PARTS, FinishedAttempt, Graded
from upturn.environments.programs.kit import ProgramKit, Solved, program_kit
from upturn.environments.programs.workspace import WorkspaceLimits

__all__ = [
    "ATTEMPT_PARTS",
    "FinishedAttempt",
    "Graded",
    "ProgramEnd",
    "ProgramEnvironment",
    "ProgramKit",
    "Solved",
    "WorkspaceLimits",
    "program_kit",
]
