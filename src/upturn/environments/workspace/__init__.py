"""An office of apps over one workspace: its state, what can be done in it, and what must not. No tasks."""

from upturn.environments.workspace.apps import apply, tools
from upturn.environments.workspace.fault import NO_FAULTS, Fault, FaultKind, FaultPlan, RateLimit
from upturn.environments.workspace.fault_layer import Outcome, attempted
from upturn.environments.workspace.fault_state import FaultState
from upturn.environments.workspace.operation import Effect, Operation
from upturn.environments.workspace.persona import Persona, Wish
from upturn.environments.workspace.refusal import OperationError
from upturn.environments.workspace.table import Table
from upturn.environments.workspace.workspace import Workspace, changes, has_same_items, is_alike, state_hash

__all__ = [
    "NO_FAULTS",
    "Effect",
    "Fault",
    "FaultKind",
    "FaultPlan",
    "FaultState",
    "Operation",
    "OperationError",
    "Outcome",
    "Persona",
    "RateLimit",
    "Table",
    "Wish",
    "Workspace",
    "apply",
    "attempted",
    "changes",
    "has_same_items",
    "is_alike",
    "state_hash",
    "tools",
]
