"""Faults of the office's apps: planned failures, the layer that injects them, and their state.

Start with ``fault`` (the plan), then ``fault_layer`` (what an agent gets instead of a result).
"""

from upturn.environments.office.faults.fault import NO_FAULTS, Fault, FaultKind, FaultPlan, RateLimit
from upturn.environments.office.faults.fault_layer import SEVERAL, Outcome, apply_with_faults
from upturn.environments.office.faults.fault_state import FaultState, Injected

__all__ = [
    "NO_FAULTS",
    "SEVERAL",
    "Fault",
    "FaultKind",
    "FaultPlan",
    "FaultState",
    "Injected",
    "Outcome",
    "RateLimit",
    "apply_with_faults",
]
