"""The office's apps: the operations of agents and their safety rules.

Here: Outlook, calendar, Excel, Word, PowerPoint, SharePoint, Teams, and the simulated user as a target. Not here:
the data that they change (``state``). Start with ``operation`` (the contract), then ``apps`` (all of them).
"""

from upturn.environments.office.apps.apps import APPS, apply, canonical_action, operation_of, parse_call, tools
from upturn.environments.office.apps.calendar import CLOSES, OPENS, event_text, free_spans
from upturn.environments.office.apps.operation import Effect, Operation, Parameters, no_impact, parse_parameters
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
    "apply",
    "canonical_action",
    "event_text",
    "free_spans",
    "has_right",
    "no_impact",
    "operation_of",
    "parse_call",
    "parse_parameters",
    "presence",
    "tools",
    "visible_rows",
]
