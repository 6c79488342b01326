"""Shares of identifiers that are found whole, and of other words that are left alone."""

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.privacy.documents import Document
from upturn.pool.privacy import Finding

Detect = Callable[[str], Sequence[Finding]]

_WORD = re.compile(r"\S+")


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
            for name in (kind, f"form:{document.form}"):
                recall.whole[name] += 1
                recall.found[name] += all(covered[start:stop])
            if not all(covered[start:stop]):
                recall.missed.append((kind, document.text[max(0, start - 30) : stop + 10]))
        for word in _WORD.finditer(document.text):
            if not any(planted[word.start() : word.end()]):
                words += 1
                untouched += not any(covered[word.start() : word.end()])
    return recall._replace(untouched=untouched, words=words)


class Untouched(NamedTuple):
    """Words of real texts that a detector left alone."""

    untouched: int
    words: int
    megabytes: float
    seconds: float
    """Processor time."""


def measure_untouched(texts: Iterable[str], detect: Detect) -> Untouched:
    """Counts the words of the texts without a finding."""
    untouched = words = size = 0
    seconds = 0.0
    for text in texts:
        began = time.process_time()
        matches = detect(text)
        seconds += time.process_time() - began
        spans = [(finding.start, finding.stop) for finding in matches]
        size += len(text.encode())
        for word in _WORD.finditer(text):
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
