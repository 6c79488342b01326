"""Agents that are somebody's own program, which reaches models through a server of this process.

Start with ``agent``; ``capture`` is the server. Not here: routing, tenants, keys of clients (``upturn.gateway``).
"""

from upturn.agents.program.agent import Attempt, Program, ProgramAgent

__all__ = ["Attempt", "Program", "ProgramAgent"]
