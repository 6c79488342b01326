"""The file in which records are durable before they are in the pool's tables.

Not here: the tables and their transactions (``pool.commit``). Start with ``journal``, then ``entries``.
"""

from upturn.pool.journal.entries import JOURNAL_ENDINGS, Rows, journal_of, read_journal
from upturn.pool.journal.journal import Journal

__all__ = ["JOURNAL_ENDINGS", "Journal", "Rows", "journal_of", "read_journal"]
