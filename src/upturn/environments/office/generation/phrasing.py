"""The phrasings of task families, read from the TOML file next to a family module at first use.

``reading.toml`` next to ``reading.py`` has one table for every family of the module:

    [mail_number]
    placeholders = ["name", "topic"]
    train = ["what number does {name} give in the {topic} mail?", "look up the number in {name}'s {topic} mail"]
    heldout = ["read me the number {name} mentions in {topic}"]

Every phrasing of a family contains all of its placeholders, which are the slots of its drafts. A split is a list of
phrasings or a list of lists of parts; parts are combined in all ways, one from each list, in order. Tasks refer to
phrasings by position: append new ones, and expect tasks and suites to change, since a task draws its phrasing from
all of them.
"""

import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from itertools import product
from string import Formatter
from typing import Any, TypeAlias, get_args

from upturn.errors import FileFormatError
from upturn.records import Split

Phrasings: TypeAlias = Mapping[Split, tuple[str, ...]]
"""By split, in the order of the file."""

_SPLITS: tuple[Split, ...] = get_args(Split)
_KEYS = ("placeholders", *_SPLITS)


def phrasings_of(module: str, family: str) -> Phrasings:
    """The family's phrasings from the TOML file next to the module; raises FileFormatError if there are none."""
    tables = read_phrasings(module)
    if family not in tables:
        name = module.rpartition(".")[2]
        raise FileFormatError(f"{name}.toml: no table [{family}]; it has {', '.join(tables)}")
    return tables[family]


@cache
def read_phrasings(module: str) -> Mapping[str, Phrasings]:
    """All phrasings in the TOML file next to the module, by family; raises FileFormatError if it is invalid."""
    package, _, name = module.rpartition(".")
    return parse_phrasings((files(package) / f"{name}.toml").read_text(encoding="utf-8"), f"{name}.toml")


def parse_phrasings(text: str, name: str) -> Mapping[str, Phrasings]:
    """The phrasings in the text of the TOML file ``name``, by family; raises FileFormatError with all problems."""
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as exc:
        raise FileFormatError(f"{name}: not TOML: {exc}") from exc
    problems: list[str] = []
    parsed: dict[str, Phrasings] = {}
    for family, table in tables.items():
        table_problems = list(_problems(table))
        problems += [f"{name}, [{family}]: {problem}" for problem in table_problems]
        if not table_problems:
            parsed[family] = {split: _combined(table[split]) for split in _SPLITS}
    if problems:
        raise FileFormatError("\n".join(problems))
    return parsed


def _problems(table: Any) -> Iterator[str]:  # Any: what a TOML file holds
    """All problems of one family's table."""
    if not isinstance(table, dict):
        yield f"must be a table, got {table!r}"
        return
    unknown, missing = sorted(table.keys() - set(_KEYS)), [key for key in _KEYS if key not in table]
    if unknown:
        yield f"unknown keys {', '.join(unknown)}; known: {', '.join(_KEYS)}"
    if missing:
        yield f"missing keys {', '.join(missing)}"
    wrong = [key for key in _KEYS if key in table and not _is_well_formed(key, table[key])]
    for key in wrong:
        parts = "" if key == "placeholders" else ", or a list of such lists (parts of phrasings)"
        yield f"{key} must be a list of one string or more{parts}; got {table[key]!r}"
    if missing or wrong:
        return
    phrasings = [phrasing for split in _SPLITS for phrasing in _combined(table[split])]
    for phrasing in phrasings:
        yield from _phrasing_problems(phrasing, set(table["placeholders"]))
    for phrasing in sorted({phrasing for phrasing in phrasings if phrasings.count(phrasing) > 1}):
        yield f"{phrasing!r} occurs more than once"


def _is_well_formed(key: str, value: Any) -> bool:  # Any: what a TOML file holds
    return _is_texts(value) or (
        key != "placeholders" and isinstance(value, list) and bool(value) and all(map(_is_texts, value))
    )


def _is_texts(value: Any) -> bool:  # Any: what a TOML file holds
    return isinstance(value, list) and bool(value) and all(isinstance(item, str) for item in value)


def _phrasing_problems(phrasing: str, placeholders: set[str]) -> Iterator[str]:
    try:
        named = {slot for _, slot, _, _ in Formatter().parse(phrasing) if slot is not None}
    except ValueError as exc:
        yield f"{phrasing!r}: {exc}"
        return
    for slot in sorted(placeholders - named):
        yield f"{phrasing!r} lacks the placeholder {{{slot}}}"
    for slot in sorted(named - placeholders):
        yield f"{phrasing!r} has an unknown placeholder {{{slot}}}; known: {', '.join(sorted(placeholders))}"


def _combined(phrasings: list[Any]) -> tuple[str, ...]:  # Any: strings, or lists of strings
    """Phrasings as they are; parts in every combination."""
    if isinstance(phrasings[0], str):
        return tuple(phrasings)
    return tuple("".join(parts) for parts in product(*phrasings))
