"""Pivot tables in files: readable notes on their first cells, which are read back exactly."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import get_args

from upturn.environments.office.files.package import NO_XML
from upturn.environments.office.state import Aggregate, Pivot

_HOW: tuple[Aggregate, ...] = get_args(Aggregate)
_TEXT = r'("(?:[^"\\]|\\.)*")'
_NOTE = re.compile(rf"pivot table ([0-9]{{1,6}}): (\w+) of {_TEXT} by {_TEXT}, from {_TEXT}")


def pivot_notes(pivots: Sequence[Pivot]) -> dict[str, str]:
    """The notes by address. ``pivot table 1: sum of "amount" by "item", from "A1:D20"``"""
    notes: dict[str, str] = {}
    for number, pivot in enumerate(pivots, start=1):
        values, rows, source = (
            NO_XML.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(text, ensure_ascii=False))
            for text in (pivot.values, pivot.rows, pivot.source)
        )
        line = f"pivot table {number}: {pivot.how} of {values} by {rows}, from {source}"
        notes[pivot.at] = f"{notes[pivot.at]}\n{line}" if pivot.at in notes else line
    return notes


def read_pivots(notes: Iterable[tuple[str, str]]) -> tuple[Pivot, ...]:
    """The pivot tables in notes by address, in order of creation; other notes are ignored."""
    return tuple(pivot for _, pivot in sorted(_numbered_pivots(notes), key=lambda numbered: numbered[0]))


def _numbered_pivots(notes: Iterable[tuple[str, str]]) -> Iterator[tuple[int, Pivot]]:
    for address, note in notes:
        for number, how, *texts in _NOTE.findall(note):
            aggregate = next((known for known in _HOW if known == how), None)
            if aggregate is not None:
                values, rows, source = (_unquote(text) for text in texts)
                yield int(number), Pivot(source, rows, values, aggregate, address)


def _unquote(text: str) -> str:
    try:
        return str(json.loads(text, strict=False))
    except ValueError:
        return text
