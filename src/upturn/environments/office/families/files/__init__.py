"""Tasks on files: workbooks, formatting of sheets and documents, slide decks, and the library that holds them.

Not here: files whose content comes from or goes to another app (``cross_app``). Start with ``workbooks``.
"""

from upturn.environments.office.families.files.decks import FAMILIES as DECKS
from upturn.environments.office.families.files.formatting import FAMILIES as FORMATTING
from upturn.environments.office.families.files.library import FAMILIES as LIBRARY
from upturn.environments.office.families.files.workbooks import FAMILIES as WORKBOOKS

__all__ = ["DECKS", "FORMATTING", "LIBRARY", "WORKBOOKS"]
