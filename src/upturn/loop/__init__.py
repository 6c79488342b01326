"""Where the wings meet: the service of tasks and the improvement cycle.

Here: the service (route, run, judge, remember), the agents it runs, and one cycle as durable steps. The rooms
below hold what a cycle is made of: ``run`` (folder, journal, context), ``rollouts``, ``evaluation``,
``trainers``, ``demo``. Start with ``cycle``, then ``service``.
"""

from upturn.loop.agent_runtime import AgentRuntime, Purpose
from upturn.loop.build_nano import build
from upturn.loop.cycle import run_cycle
from upturn.loop.failure_summary import Troubles

__all__ = ["AgentRuntime", "Purpose", "Troubles", "build", "run_cycle"]
