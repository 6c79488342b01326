"""Spreadsheet formulas: parsing, evaluating, comparing.

Here: the grammar, the functions, ranges and lookups, and whether two workbooks compute the same. Not here:
workbooks and cells (``state``) and the Excel app (``apps``). Start with ``formula``, then ``calculation``.
"""

from upturn.environments.office.formulas.calculation import (
    MAX_WORK,
    Key,
    displayed_text,
    find_cycle,
    value_of,
    work_of,
)
from upturn.environments.office.formulas.comparison import sort_key
from upturn.environments.office.formulas.equivalence import equal_cells
from upturn.environments.office.formulas.formula import (
    FormulaError,
    Literal,
    Node,
    Reference,
    format_formula,
    map_references,
    parse,
    quote_sheet,
    shift,
)
from upturn.environments.office.formulas.function import trim_spaces

__all__ = [
    "MAX_WORK",
    "FormulaError",
    "Key",
    "Literal",
    "Node",
    "Reference",
    "displayed_text",
    "equal_cells",
    "find_cycle",
    "format_formula",
    "map_references",
    "parse",
    "quote_sheet",
    "shift",
    "sort_key",
    "trim_spaces",
    "value_of",
    "work_of",
]
