"""An office of apps over one workspace: its state, what can be done in it, and what must not. No tasks."""

from upturn.environments.workspace.apps import apply, tools
from upturn.environments.workspace.operation import Effect, Operation
from upturn.environments.workspace.persona import Persona, Wish
from upturn.environments.workspace.refusal import OperationError
from upturn.environments.workspace.table import Table
from upturn.environments.workspace.workspace import Workspace, changes, state_hash

__all__ = [
    "Effect",
    "Operation",
    "OperationError",
    "Persona",
    "Table",
    "Wish",
    "Workspace",
    "apply",
    "changes",
    "state_hash",
    "tools",
]
