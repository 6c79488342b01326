"""loop."""

from upturn.loop.agent_runtime import Fleet, Purpose
from upturn.loop.build_nano import build
from upturn.loop.cycle import run_cycle
from upturn.loop.failure_summary import Troubles

__all__ = ["Fleet", "Purpose", "Troubles", "build", "run_cycle"]
