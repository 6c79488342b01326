"""apps."""

from upturn.environments.office.apps.apps import APPS, action_of, apply, canonical, operation_of, tools
from upturn.environments.office.apps.calendar import CLOSES, OPENS, free_spans, shown
from upturn.environments.office.apps.operation import Effect, Operation, Parameters, checked, no_impact
from upturn.environments.office.apps.safety import HARD, SOFT, has_right
from upturn.environments.office.apps.table_arrangement import visible_rows
from upturn.environments.office.apps.teams import presence

__all__ = [
    "APPS",
    "CLOSES",
    "HARD",
    "OPENS",
    "SOFT",
    "Effect",
    "Operation",
    "Parameters",
    "action_of",
    "apply",
    "canonical",
    "checked",
    "free_spans",
    "has_right",
    "no_impact",
    "operation_of",
    "presence",
    "shown",
    "tools",
    "visible_rows",
]
