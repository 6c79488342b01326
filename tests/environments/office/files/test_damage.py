"""Damaged office files: errors of the libraries do not propagate."""

from random import Random

import pytest

from upturn.environments.office.state.deck import Deck
from upturn.environments.office.state.document import Document
from upturn.environments.office.state.file import Content
from upturn.environments.office.state.workbook import Book
from upturn.errors import FileFormatError

for needed in ("openpyxl", "docx", "pptx"):
    pytest.importorskip(needed, reason="the extra files is not installed")

from upturn.environments.office.files.content import content_bytes, read_content  # noqa: E402
from upturn.environments.office.files.package import repack  # noqa: E402


@pytest.mark.parametrize("ending", ["xlsx", "docx", "pptx"])
def test_broken_parts_are_read_or_refused(ending: str, book: Book, document: Document, deck: Deck) -> None:
    contents: dict[str, Content] = {"xlsx": book, "docx": document, "pptx": deck}
    data = content_bytes(f"a.{ending}", contents[ending])
    rng = Random(ending)
    refused = 0
    for _ in range(20):
        damaged = repack(data, lambda _, part: _cut(rng, part) if rng.random() < 0.15 else part)
        try:
            read_content(f"a.{ending}", damaged)
        except FileFormatError:
            refused += 1
    assert refused > 5


def _cut(rng: Random, part: bytes) -> bytes:
    """Returns the data with a part removed or moved."""
    first, last = sorted(rng.randrange(len(part) + 1) for _ in range(2))
    return part[:first] + part[last:] if rng.random() < 0.7 else part[last:] + part[first:last] + part[:first]
