"""Checks that stored records are those that were written.

Not here: the damage of a database file (``upturn.pool.database``). Start with ``chain``, a hash over each table.
"""

from upturn.pool.audit.chain import extend_chain, ledger_problems

__all__ = ["extend_chain", "ledger_problems"]
