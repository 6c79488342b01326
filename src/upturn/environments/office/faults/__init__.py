"""faults."""

from upturn.environments.office.faults.fault import NO_FAULTS, Fault, FaultKind, FaultPlan, RateLimit
from upturn.environments.office.faults.fault_layer import SEVERAL, Outcome, attempted
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
    "attempted",
]
