"""Tasks across several apps, from one looked-up number (``transfers``) to work of thirty steps (``workflows``).

In ``meetings`` a chat or mail asks for a meeting; in ``people`` a person must be looked up by role first. Start
with ``transfers``.
"""

from upturn.environments.office.families.cross_app.meetings import FAMILIES as MEETINGS
from upturn.environments.office.families.cross_app.people import FAMILIES as PEOPLE
from upturn.environments.office.families.cross_app.transfers import FAMILIES as TRANSFERS
from upturn.environments.office.families.cross_app.workflows import FAMILIES as WORKFLOWS

__all__ = ["MEETINGS", "PEOPLE", "TRANSFERS", "WORKFLOWS"]
