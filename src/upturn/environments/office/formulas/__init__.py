"""Spreadsheet formulas: parsing, evaluating, comparing.

Here: the grammar, the functions, ranges and lookups, and whether two workbooks compute the same. Not here:
workbooks and cells (``state``) and the Excel app (``apps``). Start with ``formula``, then ``calculation``.
"""

from upturn.environments.office.formulas.calculation import MAX_WORK, Key, cycle_of, shown_in, value_of, work_of
from upturn.environments.office.formulas.comparison import sorting_key
from upturn.environments.office.formulas.equivalence import alike
from upturn.environments.office.formulas.formula import (
    FormulaError,
    Literal,
    Node,
    Reference,
    mapped,
    moved,
    parsed,
    quoted,
    written,
)
from upturn.environments.office.formulas.function import trimmed

__all__ = [
    "MAX_WORK",
    "FormulaError",
    "Key",
    "Literal",
    "Node",
    "Reference",
    "alike",
    "cycle_of",
    "mapped",
    "moved",
    "parsed",
    "quoted",
    "shown_in",
    "sorting_key",
    "trimmed",
    "value_of",
    "work_of",
    "written",
]
