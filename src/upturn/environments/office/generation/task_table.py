"""Workbooks of tasks, with one table each, drawn for each task."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from upturn.environments.office.generation.family import call
from upturn.environments.office.generation.scene import Scene
from upturn.environments.office.state import Book, File, Position, Sheet
from upturn.records import Action

NAMES = (
    *("stock list", "trip costs", "price list", "sales plan", "order book"),
    *("team budget", "hours log", "parts list", "stand plan", "print orders"),
)
KEYS = (
    *("tea", "rice", "soap", "paper", "coffee", "sugar", "flour", "honey"),
    *("milk", "butter", "cheese", "glue", "ink", "chalk", "string", "felt"),
)
FOLDERS = ("sales", "support", "design", "office")
COLUMNS = ("stock", "price", "weight", "rate", "volume", "cost", "score", "limit")
GROUPS = ("region", "team", "month", "site")
GROUP_VALUES = {
    "region": ("north", "south", "east", "west"),
    "team": ("red", "blue", "green"),
    "month": ("january", "february", "march", "april"),
    "site": ("harbour", "hill", "park"),
}


class TaskTable(NamedTuple):
    """A workbook with one table."""

    name: str
    file: File
    rows: list[list[str]]
    """Header first; a key and two columns of numbers."""

    def amount(self, row: int, column: int) -> str:
        """The text of a cell; row and column from 0."""
        return self.rows[row][column]

    def address(self, row: int, column: int) -> str:
        """The address of a cell, such as ``B3``; row and column from 0."""
        return Position(column + 1, row + 1).address

    def crossing(self, row: int, column: int) -> tuple[Action, Action]:
        """The searches for the row's key and the column's header, which locate the cell."""
        return (
            call("excel.find", id=self.file.id, text=self.amount(row, 0), is_whole=True),
            call("excel.find", id=self.file.id, text=self.amount(0, column), is_whole=True),
        )


def add_book(scene: Scene, name: str, rows: Sequence[Sequence[str]]) -> File:
    """A workbook of the owner's with one sheet, ``data``, that holds these rows from A1 on."""
    return scene.add_file(f"/{scene.rng.choice(FOLDERS)}/{name}.xlsx", Book({"data": Sheet(_cells(rows))}))


def _cells(rows: Sequence[Sequence[str]]) -> dict[str, str]:
    return {
        Position(column, row).address: text
        for row, texts in enumerate(rows, start=1)
        for column, text in enumerate(texts, start=1)
    }


def add_sheet(scene: Scene, table: TaskTable, name: str, rows: Sequence[Sequence[str]]) -> None:
    """Adds a sheet with these rows to the table's workbook."""
    content = table.file.content
    assert isinstance(content, Book)  # from ``add_book``
    scene.add(replace(table.file, content=Book({**content.sheets, name: Sheet(_cells(rows))})))


def plain_table(scene: Scene, *, most: int = 12) -> TaskTable:
    """A table of three columns with distinct keys and up to ``most`` rows; adds a second workbook as a
    distraction."""
    rng = scene.rng
    name, other = rng.sample(NAMES, 2)
    count = rng.randint(5, most)
    keys = (
        rng.sample(KEYS, count)
        if count <= len(KEYS)
        else [f"{rng.choice(KEYS)} {number}" for number in range(count)]
    )
    header = ["item", *rng.sample(COLUMNS, 2)]
    numbers = rng.sample(range(2, 1_000), 2 * count)
    rows = [header, *([key, str(numbers[2 * at]), str(numbers[2 * at + 1])] for at, key in enumerate(keys))]
    file = add_book(scene, name, rows)
    add_book(scene, other, [header, *([key, str(rng.randint(2, 999)), "1"] for key in KEYS[:6])])
    return TaskTable(name, file, rows)


def grouped_table(scene: Scene) -> TaskTable:
    """A table of a group, a key and a number; every group occurs several times."""
    rng = scene.rng
    group, column = rng.choice(GROUPS), rng.choice(COLUMNS)
    values = GROUP_VALUES[group]
    labels = [*values, *values, *(rng.choice(values) for _ in range(rng.randint(1, 4)))]
    rng.shuffle(labels)
    keys = rng.sample(KEYS, len(labels))
    rows = [[group, "item", column]]
    rows += [[label, key, str(rng.randint(2, 400))] for label, key in zip(labels, keys, strict=True)]
    name = rng.choice(NAMES)
    return TaskTable(name, add_book(scene, name, rows), rows)
