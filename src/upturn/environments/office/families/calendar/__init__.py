"""Tasks in the calendar: questions and new events (``scheduling``), changes of events (``changes``).

Not here: meetings that another app asks for (``cross_app``). Start with ``scheduling``.
"""

from upturn.environments.office.families.calendar.changes import FAMILIES as CHANGES
from upturn.environments.office.families.calendar.scheduling import FAMILIES as SCHEDULING

__all__ = ["CHANGES", "SCHEDULING"]
