"""Erasing everything that names a subject, such as a person's address, from a tenant's records.

Not here: personal data that nobody named (``upturn.pool.privacy``). Start with ``forget``.
"""

from upturn.pool.erasure.forget import Forgotten, forget
from upturn.pool.erasure.scrub import files_with, scrub
from upturn.pool.erasure.subject import MASK, Subject

__all__ = ["MASK", "Forgotten", "Subject", "files_with", "forget", "scrub"]
