"""The office's apps: what an agent can do with the state, and what it must not.

Here: operations of Outlook, calendar, Excel, Word, PowerPoint, SharePoint and Teams, the simulated user as a
target, and safety rules. Not here: the data that they change (``state``). Start with ``operation`` (the
contract), then ``apps`` (all of them).
"""

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
