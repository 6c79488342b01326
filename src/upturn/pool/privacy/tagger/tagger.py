"""The tagger as a detector: names of persons, addresses and organisations in a text.

Order: tokens, scores of labels, the best labels in a row, and then the parts of the text that are pseudonyms or
masks are left out. A text longer than ``_WINDOW`` tokens is read in windows that overlap.
"""

import json
import re
from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import accumulate, pairwise
from pathlib import Path
from threading import Lock

from safetensors.numpy import load_file

from upturn.errors import ModelError
from upturn.pool.privacy.finding import Finding, FindingKind
from upturn.pool.privacy.tagger.border import bordered
from upturn.pool.privacy.tagger.decoding import Costs, Span, spans_of
from upturn.pool.privacy.tagger.made_name import is_made_span
from upturn.pool.privacy.tagger.network import REACH, Ints, Network, Weights
from upturn.pool.privacy.tagger.token import SPACE, pieces_of

SHIPPED = Path(__file__).parent / "shipped"
WEIGHTS, CARD = "model.safetensors", "card.json"
_LINE_END = re.compile(r"\n+|(?:\\n)+")
_CHUNK = 256
"""Fewest characters of lines that are searched together, and kept if they come again."""
_AROUND = 100
"""Characters before and behind that are searched with them, more than the network and a name see."""
_CACHED, _LONGEST_CACHED = 4096, 4000
_WINDOW = 1 << 14
"""Tokens whose scores are computed together, which bounds the memory to about 20 MB."""
_OVERLAP = 2 * (REACH + 1)
_KINDS: tuple[FindingKind, ...] = ("person", "address", "organisation")
_PERSON = 1 + _KINDS.index("person")
_WORD = re.compile(r"[^\W\d_]+")
_IDEOGRAPHS = 0x2E80
"""The first code point of scripts whose words have one letter or a few."""
_LONGEST = 300
"""Characters; what is longer is no name."""


class Tagger:
    """Finds names in texts."""

    def __init__(self, weights: Weights, costs: Costs) -> None:
        self._network, self._costs, self._lock = Network(weights), costs, Lock()
        self._cached = lru_cache(maxsize=_CACHED)(self._search)  # system prompts and results of tools repeat

    def __call__(self, text: str) -> Iterator[Finding]:
        """Yields the names in a text."""
        borders = [0]
        if len(text) > 2 * _CHUNK:
            for line_end in _LINE_END.finditer(text):
                if line_end.end() - borders[-1] >= _CHUNK:
                    borders.append(line_end.end())
        for start, stop in pairwise([*borders, len(text)]):
            begin = max(0, start - _AROUND)
            part = text[begin : stop + _AROUND]
            found = self._cached(part) if len(part) <= _LONGEST_CACHED else self._search(part)
            for kind, first, last in found:
                if start <= first + begin < stop:
                    yield Finding(kind, first + begin, last + begin)

    def _search(self, text: str) -> tuple[Finding, ...]:
        """Returns the names in a part of a text."""
        pieces = pieces_of(text)
        with self._lock:  # the network keeps the vectors of tokens
            spans = list(self._spans(self._network.numbers_of(pieces)))
        if not spans:
            return ()
        stops = list(accumulate(map(len, pieces)))
        places = [place for place, piece in enumerate(pieces) if piece != SPACE]
        found: list[Finding] = []
        for span in spans:
            first, last = places[span.first], places[span.last]
            while first < last and not pieces[first][0].isalnum():
                first += 1
            while last > first and not pieces[last][0].isalnum():
                last -= 1
            start, stop = stops[first] - len(pieces[first]), stops[last]
            kind = _KINDS[span.label - 1]
            start, stop = bordered(kind, text, start, stop, lexicon=self._network.lexicon)
            part = text[start:stop]
            if len(part) <= _LONGEST and not is_made_span(part) and is_plausible(kind, part):
                found.append(Finding(kind, start, stop))
        return tuple(found)

    def _spans(self, numbers: Ints) -> Iterator[Span]:
        """Yields the parts of a text with a label, ascending."""
        step = _WINDOW - 2 * _OVERLAP
        open_span: Span | None = None
        for start in range(0, len(numbers), step):
            begin, stop = max(0, start - _OVERLAP), min(len(numbers), start + step + _OVERLAP)
            scores = self._network.scores(numbers[begin:stop])[:, start - begin : start - begin + step]
            scores[_PERSON] += self._costs.unknown * self._network.unknown(numbers[start : start + step])
            for label, first, last in spans_of(scores, self._costs):
                span = Span(label, first + start, last + start)
                if open_span is not None and open_span[:1] == span[:1] and open_span.last + 1 == span.first:
                    span = Span(label, open_span.first, span.last)  # it goes on over the border of two windows
                elif open_span is not None:
                    yield open_span
                open_span = span
        if open_span is not None:
            yield open_span


def is_plausible(kind: FindingKind, text: str) -> bool:
    """Whether a text can be of the kind: two letters; for an address a word of three, and a number.

    A letter of a script such as Chinese counts as a word.
    """
    words = _WORD.findall(text)
    longest = max(map(len, words), default=0)
    if any(ord(word[0]) >= _IDEOGRAPHS for word in words):
        return True
    if kind == "address":
        return longest > 2 and any(sign.isdecimal() for sign in text)
    return longest > 1


def load_tagger(folder: Path) -> Tagger:
    """Returns the tagger in a folder; raises ModelError with problem and remedy."""
    try:
        stored = load_file(folder / WEIGHTS)
        costs = json.loads((folder / CARD).read_text())["costs"]
        weights = Weights(**{name: stored[name] for name in Weights._fields})
        return Tagger(weights, Costs(costs["change"], costs["certain"], tuple(costs["label"]), costs["unknown"]))
    except (OSError, ValueError, KeyError, TypeError) as exc:
        raise ModelError(
            f"no tagger in {str(folder)!r}: {str(exc).splitlines()[0]}; a tagger has {WEIGHTS} and {CARD}, as"
            " `upturn model build-tagger --output FOLDER` makes them"
        ) from exc


@cache
def shipped_tagger() -> Tagger:
    """Returns the tagger that ships with the package, loaded once."""
    return load_tagger(SHIPPED)


def names(text: str) -> Iterator[Finding]:
    """Yields names of persons, addresses and organisations."""
    return shipped_tagger()(text)
