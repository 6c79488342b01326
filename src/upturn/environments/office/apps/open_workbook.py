"""Opens workbooks with the required right, writes cells and saves."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from upturn.environments.office.apps.drive import open_content, with_new_version
from upturn.environments.office.apps.operation import Effect
from upturn.environments.office.apps.safety import check_right, sensitivity_costs
from upturn.environments.office.apps.table_arrangement import used_table
from upturn.environments.office.formulas import (
    MAX_WORK,
    FormulaError,
    Node,
    Reference,
    displayed_text,
    find_cycle,
    format_formula,
    map_references,
    parse,
    quote_sheet,
    work_of,
)
from upturn.environments.office.state import (
    Area,
    Book,
    File,
    OperationError,
    Right,
    Sheet,
    Workspace,
    area_of,
    is_formula,
    normalize_text,
)

_MANY = 8
"""Limit on the formulas with values in a result."""


class OpenedWorkbook(NamedTuple):
    """An opened workbook."""

    workspace: Workspace
    file: File
    book: Book
    costs: Mapping[str, float]
    """Soft-constraint costs of opening it."""

    def named(self, sheet: str | None) -> str:
        """A sheet's name in the book's spelling; None = the only sheet. Raises OperationError if there is none."""
        names = ", ".join(self.book.sheets)
        if sheet is None:
            if len(self.book.sheets) != 1:
                raise OperationError("missing_parameter", f"sheet is required; {self.file.id} has: {names}")
            return next(iter(self.book.sheets))
        name = find_sheet(self.book, sheet)
        if name is None:
            raise OperationError("not_found", f"{self.file.id} has no sheet {sheet!r}; it has: {names}")
        return name

    def unchanged(self, text: str) -> Effect:
        """An effect that changes nothing."""
        return Effect(self.workspace, text, self.costs)

    def saved(self, book: Book, text: str) -> Effect:
        """Saves this content, with a new version if it differs."""
        if all(self.book.sheets.get(name) == sheet for name, sheet in book.sheets.items()):
            return self.unchanged(text)
        return Effect(with_new_version(self.workspace, self.file, book), text, self.costs)


class OpenedSheet(NamedTuple):
    """One sheet of an opened workbook."""

    opened: OpenedWorkbook
    name: str

    @property
    def book(self) -> Book:
        """The whole workbook."""
        return self.opened.book

    @property
    def sheet(self) -> Sheet:
        """The sheet's content."""
        return self.book.sheets[self.name]

    def table(self, range_: str | None) -> Area:
        """The used part of a range (None = the used range); raises OperationError as ``used_table``."""
        return used_table(self.sheet, None if range_ is None else area_of(range_))

    def saved(self, sheet: Sheet, text: str) -> Effect:
        """Saves this content of the sheet, as ``OpenedWorkbook.saved``."""
        return self.opened.saved(self.book.with_sheet(self.name, sheet), text)

    def recomputed(self, sheet: Sheet, text: str) -> Effect:
        """As ``saved``, with ``with_checked_sheet`` for all formulas of the sheet."""
        return self.opened.saved(with_checked_sheet(self.book, self.name, sheet, sheet.used.formulas), text)


def open_workbook(workspace: Workspace, id_: str, right: Right) -> OpenedWorkbook:
    """The workbook; raises OperationError if it does not exist or the right is missing."""
    file, book = open_content(workspace, id_, Book, noun="workbook")
    check_right(workspace, file, right)
    return OpenedWorkbook(workspace, file, book, sensitivity_costs(workspace, file.id, file.label))


def find_sheet(book: Book, name: str) -> str | None:
    """The sheet's name in the book's spelling, ignoring case; None = there is no such sheet."""
    if name in book.sheets:
        return name
    return next((sheet for sheet in book.sheets if sheet.casefold() == name.casefold()), None)


def normalize_input(book: Book, name: str, text: str) -> str:
    """The cell content for this input; raises OperationError for invalid formulas."""
    if not is_formula(text):
        return normalize_text(text)
    return format_formula(parse_formula(book, name, text))


def parse_formula(book: Book, name: str, text: str) -> Node:
    """The tree of a formula in the sheet, without the sheet's own name; raises OperationError if it is invalid."""

    def known(reference: Reference) -> Reference:
        if reference.sheet is None:
            return reference
        sheet = find_sheet(book, reference.sheet)
        if sheet is None:
            names = ", ".join(map(quote_sheet, book.sheets))
            raise OperationError("bad_formula", f"there is no sheet {reference.sheet!r}; there are: {names}")
        return replace(reference, sheet=None if sheet == name else sheet)

    try:
        return map_references(parse(text).tree, known)
    except FormulaError as exc:
        raise OperationError(
            "bad_formula", f"{text[:60]!r}: {exc}; a text that begins with = is written with ' before it"
        ) from None


def with_cells(book: Book, name: str, texts: Mapping[str, str]) -> Book:
    """The book with these normalized texts by address; raises OperationError as ``with_checked_sheet``."""
    return with_checked_sheet(book, name, book.sheets[name].with_cells(texts), texts)


def with_checked_sheet(before: Book, name: str, sheet: Sheet, addresses: Iterable[str]) -> Book:
    """The book with this sheet replaced.

    Raises OperationError if one of these cells depends on itself, or if the work exceeds both ``MAX_WORK`` and the
    work before.
    """
    book = before.with_sheet(name, sheet)
    work = work_of(book)
    if work > MAX_WORK and work > work_of(before):
        raise OperationError(
            "bad_formula",
            f"its formulas would read {work:,} cells and signs in all, at most are {MAX_WORK:,}; "
            "name smaller ranges, or write fewer formulas",
        )
    cycle = find_cycle(book, ((name, address) for address in addresses))
    if cycle:
        cells = [address if sheet == name else f"{quote_sheet(sheet)}!{address}" for sheet, address in cycle]
        shown = [*cells[:_MANY], *(["…"] if len(cells) > _MANY else []), cells[0]]
        raise OperationError("bad_formula", f"that would be a ring: {' → '.join(shown)}")
    return book


def formula_values(book: Book, name: str, addresses: Iterable[str]) -> str:
    """The values of the first few formulas among these cells; empty without formulas."""
    formulas = [address for address in addresses if is_formula(book.sheets[name].cells.get(address, ""))]
    shown = [f"{formula} shows {displayed_text(book, name, formula) or 'nothing'}" for formula in formulas[:_MANY]]
    more = [f"and {len(formulas) - _MANY} more formulas"] if len(formulas) > _MANY else []
    return "; ".join((*shown, *more))
