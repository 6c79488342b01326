"""Agents that are somebody's own program, which reaches models through a server of this process.

Start with ``agent``; ``capture`` is the server, ``turns`` writes the trajectory, ``destination`` says which model
answers a call; ``rendering`` writes rows for other models. Not here: routing, tenants, keys of clients
(``upturn.gateway``).
"""

from upturn.agents.program.agent import Program, ProgramAgent
from upturn.agents.program.attempt import Attempt
from upturn.agents.program.captured_call import CapturedCall, CapturedCalls, captured_calls
from upturn.agents.program.command import ProgramCommand, program_command
from upturn.agents.program.continuity import Cause, Continuity, ContinuityCounter, continuity
from upturn.agents.program.destination import (
    MakeUpstream,
    ProgramModels,
    endpoint_model,
    other_model,
    rollout_model,
)
from upturn.agents.program.rendering import is_program, program_rows

__all__ = [
    "Attempt",
    "CapturedCall",
    "CapturedCalls",
    "Cause",
    "Continuity",
    "ContinuityCounter",
    "MakeUpstream",
    "Program",
    "ProgramAgent",
    "ProgramCommand",
    "ProgramModels",
    "captured_calls",
    "continuity",
    "endpoint_model",
    "is_program",
    "other_model",
    "program_command",
    "program_rows",
    "rollout_model",
]
