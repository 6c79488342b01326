"""Shares of identifiers that are found whole, and of other words that are left alone."""

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.privacy.documents import NAMES, Document
from upturn.pool.privacy import Finding

Detect = Callable[[str], Sequence[Finding]]

_WORD = re.compile(r"\S+")
_PART = re.compile(r"[^\W\d_]+")
_STATED = re.compile(r'"(?:first_name|last_name|address1|address2)": "([^"]+)"')
_USER = re.compile(r"\b([a-z]+)_([a-z]+)_\d{4}\b")


class Recall(NamedTuple):
    """Identifiers that a detector found."""

    found: Counter[str]
    """By kind, and by form as ``form:NAME``: those whose every character is in a finding."""
    whole: Counter[str]
    missed: list[tuple[str, str]]
    """Kind and text around the identifiers that were not found."""
    untouched: int
    """Other words without a finding."""
    words: int
    """Other words."""


def measure_recall(documents: Iterable[Document], detect: Detect) -> Recall:
    """Counts found identifiers and touched words of the documents."""
    recall = Recall(Counter(), Counter(), [], 0, 0)
    untouched = words = 0
    for document in documents:
        covered = bytearray(len(document.text))
        for finding in detect(document.text):
            covered[finding.start : finding.stop] = b"\1" * (finding.stop - finding.start)
        planted = bytearray(len(document.text))
        for kind, start, stop in document.identifiers:
            planted[start:stop] = b"\1" * (stop - start)
            is_found = all(covered[place] for place in range(start, stop) if _counts(document, place))
            for name in (kind, f"form:{document.form}"):
                recall.whole[name] += 1
                recall.found[name] += is_found
            if not is_found:
                recall.missed.append((kind, document.text[max(0, start - 30) : stop + 10]))
        for word in _WORD.finditer(document.text):
            if not any(planted[word.start() : word.end()]):
                words += 1
                untouched += not any(covered[word.start() : word.end()])
    return recall._replace(untouched=untouched, words=words)


def _counts(document: Document, place: int) -> bool:
    """Whether the character has to be replaced: of identifiers each one, of names the letters and digits."""
    return document.form != NAMES or document.text[place].isalnum()


class Untouched(NamedTuple):
    """Words of real texts that a detector left alone."""

    untouched: int
    words: int
    megabytes: float
    seconds: float
    """Processor time."""


def measure_untouched(texts: Iterable[str], detect: Detect, names: frozenset[str] = frozenset()) -> Untouched:
    """Counts the words of the texts without a finding; not those with one of the ``names`` (small letters)."""
    untouched = words = size = 0
    seconds = 0.0
    for text in texts:
        began = time.process_time()
        matches = detect(text)
        seconds += time.process_time() - began
        spans = [(finding.start, finding.stop) for finding in matches]
        size += len(text.encode())
        for word in _WORD.finditer(text):
            if names and not names.isdisjoint(_PART.findall(word[0].lower())):
                continue
            words += 1
            untouched += not any(start < word.end() and stop > word.start() for start, stop in spans)
    return Untouched(untouched, words, size / 1e6, seconds)


def texts_of_folder(folder: Path) -> list[str]:
    """Returns the Markdown pages of a folder."""
    return [path.read_text() for path in sorted(folder.rglob("*.md"))]


def texts_of_tau_bench(path: Path) -> list[str]:
    """Returns the texts of all messages of a file of τ-bench results."""
    rows = json.loads(path.read_text())
    return [message["content"] for row in rows for message in row["traj"] if message.get("content")]


def names_of_texts(texts: Iterable[str]) -> frozenset[str]:
    """Returns the words, in small letters, of the names and streets that results of tools in the texts state."""
    names: set[str] = set()
    for text in texts:
        for stated in _STATED.findall(text):
            names.update(_PART.findall(stated.lower()))
        for user in _USER.findall(text):
            names.update(user)
    return frozenset(name for name in names if len(name) > 1)
