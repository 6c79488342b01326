"""The service of tasks and the improvement cycle, which connect serving and learning.

Here: the service (route, run, evaluate, store), the agents it runs, and one cycle as durable steps. The steps of a
cycle are in ``run`` (folder, journal, context), ``rollouts``, ``evaluation``, ``trainers`` and ``demo``. Start with
``cycle``, then ``service``.
"""

from upturn.loop.agent_runtime import AgentRuntime, Purpose
from upturn.loop.build_nano import build_model
from upturn.loop.canary_traffic import reserved_policy
from upturn.loop.cycle import CycleOutcome, run_cycle
from upturn.loop.failure_summary import FailureSummary
from upturn.loop.recall import embedder_of
from upturn.loop.schedule import cycles
from upturn.loop.service import Service

__all__ = [
    "AgentRuntime",
    "CycleOutcome",
    "FailureSummary",
    "Purpose",
    "Service",
    "build_model",
    "cycles",
    "embedder_of",
    "reserved_policy",
    "run_cycle",
]
