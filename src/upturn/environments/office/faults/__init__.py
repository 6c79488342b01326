"""Faults of the office's apps: planned failures, the layer that injects them, and their state.

Start with ``fault`` (the plan), then ``fault_layer`` (how faults change the results of calls).
"""

from upturn.environments.office.faults.fault import NO_FAULTS, Fault, FaultKind, FaultPlan, RateLimit
from upturn.environments.office.faults.fault_layer import LIST_PARAMETERS, Outcome, apply_with_faults
from upturn.environments.office.faults.fault_state import FaultState, Injected

__all__ = [
    "LIST_PARAMETERS",
    "NO_FAULTS",
    "Fault",
    "FaultKind",
    "FaultPlan",
    "FaultState",
    "Injected",
    "Outcome",
    "RateLimit",
    "apply_with_faults",
]
