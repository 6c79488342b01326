"""Documents with known names, addresses and organisations, which the tagger is trained on.

A template's slots are replaced; the parts to find stand between marks until the document is ready.
"""

import html
import json
import random
import re
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from upturn.loop.tagger.filler import Filler
from upturn.loop.tagger.mark import END, STARTS, plain_of
from upturn.loop.tagger.name import DATA, Split
from upturn.loop.tagger.noise import with_noise

_SLOT = re.compile(r"\{([A-Za-z_]+\d?)\}")
_TEMPLATES = "texts.txt"


class Marked(NamedTuple):
    """A text and its parts to find."""

    text: str
    parts: tuple[tuple[int, int, int], ...]
    """Label (index in the tagger's ``LABELS``), start and stop, ascending."""


@cache
def templates() -> tuple[tuple[str, str], ...]:
    """Returns language and text of all templates."""
    blocks = (DATA / _TEMPLATES).read_text().split("%% ")[1:]
    pairs = (block.split("\n", 1) for block in blocks)
    return tuple((language.strip(), text.removesuffix("\n").replace("\\n", "\n")) for language, text in pairs)


def make_document(source: random.Random, split: Split) -> Marked:
    """Returns a document of one to four templates in one of the usual forms and casings."""
    count = source.choice((1, 1, 2, 3, 4))
    first = source.choice(templates())
    chosen = [first, *(source.choice(templates()) for _ in range(count - 1))]
    pieces = [_filled(source, language, text, split) for language, text in chosen]
    text = source.choice(("\n\n", "\n", "\n\n", " ")).join(pieces)
    return unmarked(_recased(source, _encoded(source, with_noise(source, text))))


def _filled(source: random.Random, language: str, text: str, split: Split) -> str:
    filler = Filler(source, language, split)
    if "{" not in text:
        return text
    is_json = text.startswith('{"')

    def slot(match: re.Match[str]) -> str:
        value = filler.slot(match[1])
        return json.dumps(value, ensure_ascii=False)[1:-1] if is_json else value

    return _SLOT.sub(slot, text)


def _encoded(source: random.Random, text: str) -> str:
    draw = source.random()
    if draw < 0.06:
        return json.dumps(text, ensure_ascii=False)[1:-1]
    if draw < 0.08:
        return html.escape(text, quote=False)
    if draw < 0.12:
        return "".join(
            sign if sign.isascii() or "\ue000" <= sign < "\ue010" else json.dumps(sign)[1:-1] for sign in text
        )
    return text


def _recased(source: random.Random, text: str) -> str:
    draw = source.random()
    if draw < 0.05:
        return text.lower()
    if draw < 0.08:
        return text.upper()
    if draw < 0.09:
        return re.sub(r"[^\W\d_]+", lambda match: match[0].capitalize(), text)
    return text


def unmarked(text: str) -> Marked:
    """Returns the text without marks, and the parts that they were around."""
    labels: Mapping[str, int] = {mark: label for label, mark in STARTS.items()}
    parts: list[tuple[int, int, int]] = []
    position, label, start = 0, 0, 0
    for letter in text:
        if letter in labels:
            label, start = labels[letter], position
        elif letter == END:
            parts.append((label, start, position))
        else:
            position += 1
    return Marked(plain_of(text), tuple(parts))
