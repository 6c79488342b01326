"""Tasks in the mailbox: reading, sorting and writing mails.

Not here: mails that carry something to or from another app (``cross_app``). Start with ``reading``.
"""

from upturn.environments.office.families.mail.reading import FAMILIES as READING
from upturn.environments.office.families.mail.sorting import FAMILIES as SORTING
from upturn.environments.office.families.mail.writing import FAMILIES as WRITING

__all__ = ["READING", "SORTING", "WRITING"]
