"""The audit log, a Merkle tree over all that is stored, and the check that records are those that were written.

Not here: the damage of a database file (``upturn.pool.database``), and the acts of operators
(``upturn.pool.access``). ``lineage`` says what came of what. Start with ``merkle`` (pure), then ``entry``, ``log``
and ``verification``; who erases records reads ``erasure``.
"""

from upturn.pool.audit.entry import LOGGED, Entry
from upturn.pool.audit.erasure import ERASURES, Erased, erasure_digest
from upturn.pool.audit.lineage import Branch, Lineage, Node, lineage
from upturn.pool.audit.log import StoredNodes, StoredRows, append_entries, find_entries, read_head, tree_of
from upturn.pool.audit.merkle import HASH_BYTES, Frontier, TreeHead
from upturn.pool.audit.problem import Problem
from upturn.pool.audit.proof import Proof, prove, read_proof
from upturn.pool.audit.verification import UPGRADE, audit_problems, ledger_problems

__all__ = [
    "ERASURES",
    "HASH_BYTES",
    "LOGGED",
    "UPGRADE",
    "Branch",
    "Entry",
    "Erased",
    "Frontier",
    "Lineage",
    "Node",
    "Problem",
    "Proof",
    "StoredNodes",
    "StoredRows",
    "TreeHead",
    "append_entries",
    "audit_problems",
    "erasure_digest",
    "find_entries",
    "ledger_problems",
    "lineage",
    "prove",
    "read_head",
    "read_proof",
    "tree_of",
]
