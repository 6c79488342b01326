"""Drills of reading tables and lists: what stands beside something."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import TypeAlias

from upturn.environments.office.family import agreed, answer, call
from upturn.records import Action, Observation
from upturn.training.pretraining.demonstration import Walk

_Columns: TypeAlias = Mapping[str, Mapping[str, str]]
"""By column: what stands there beside each word."""
MOST_ROWS = 9
MOST_QUESTIONS = 6


def pairs_walk(number: int, words: Sequence[str]) -> Walk:
    """Words with a number each, said again in another order: every other token written is a look-up."""
    rng = Random(f"pairs/{number}")
    count = rng.randint(3, 8)
    found = dict(zip(rng.sample(words, count), _numbers(rng, count), strict=True))
    asked = rng.sample(sorted(found), min(count, MOST_QUESTIONS))
    shown = " ".join(f"{word} {value}" for word, value in found.items())
    return [(Observation(shown), answer(" ".join(f"{word} {found[word]}" for word in asked)))]


def turned_walk(number: int, words: Sequence[str]) -> Walk:
    """As ``pairs``, but line by line, and the number or id stands before its word, as in lists."""
    rng = Random(f"turned/{number}")
    count, letter = rng.randint(3, 8), rng.choice(("", rng.choice("mefc")))
    values = [f"{letter}{each}" for each in rng.sample(range(100, 1000), count)]
    found = dict(zip(rng.sample(words, count), values, strict=True))
    asked = rng.sample(sorted(found), min(count, MOST_QUESTIONS))
    shown = "\n".join(f"{value} {word}" for word, value in found.items())
    return [(Observation(shown), answer(" ".join(f"{word} {found[word]}" for word in asked)))]


def rows_walk(number: int, words: Sequence[str]) -> Walk:
    """A table or a list, said again as ``pairs`` are: what stands beside each row's first word in one column."""
    rng = Random(f"rows/{number}")
    shown, columns = _shown(rng, words)
    asked = rng.choice(sorted(columns))
    found = columns[asked]
    told = rng.sample(sorted(found), min(len(found), MOST_QUESTIONS))
    return [(Observation(f"{shown}\n{asked}"), answer(" ".join(f"{key} {found[key]}" for key in told)))]


def questions_walk(number: int, words: Sequence[str]) -> Walk:
    """Questions in turn about one table or list, shown with the first: what stands beside this, which one is it."""
    rng = Random(f"questions/{number}")
    shown, columns = _shown(rng, words)
    cells = [(of, key) for of, found in columns.items() for key in found]
    walk = []
    for place, (of, key) in enumerate(rng.sample(sorted(cells), min(len(cells), MOST_QUESTIONS))):
        asked = rng.choice(("what is the {of} of {key}?", "the {of} of {key}", "{key}: {of}?")).format(
            of=of, key=key
        )
        walk.append((Observation(asked if place else f"{shown}\n{asked}"), answer(columns[of][key])))
    return walk


def columns_walk(number: int, words: Sequence[str]) -> Walk:
    """A sheet of two to four columns; of some rows is said what stands in which: "cost C 761 limit B 312"."""
    rng = Random(f"columns/{number}")
    width, count = rng.randint(1, 3), rng.randint(1, 5)
    drawn = rng.sample(words, count + width + 1)
    keys, header = drawn[:count], drawn[count:]
    shown, columns = _table(rng, keys, header, is_sheet=True)
    if rng.random() < 0.5:
        shown = shown.partition("\n")[2]
    walk = []
    for place, key in enumerate(rng.sample(keys, min(count, 3))):
        told = [f"{of} {'ABCD'[header.index(of)]} {columns[of][key]}" for of in rng.sample(header[1:], width)]
        walk.append((Observation(key if place else f"{shown}\n{key}"), answer(" ".join(told))))
    return walk


def sought_walk(number: int, words: Sequence[str]) -> Walk:
    """What is asked for first and found in tables or lists that are shown in turn, at times one look earlier."""
    rng = Random(f"sought/{number}")
    key, header = rng.sample(words, 2)
    is_list, is_early = rng.random() < 0.4, rng.random() < 0.3
    of = "id" if is_list else header
    asked = rng.choice(("find the {of} of {key}", "the {of} of {key}, please", "{key}: {of}?")).format(
        of=of, key=key
    )
    walk: list[tuple[Observation, Action]] = [(Observation(asked), call("sharepoint.search", query=key))]
    for _ in range(rng.randint(2, 4)):
        keys = [word for word in rng.sample(words, rng.randint(2, MOST_ROWS - 3)) if word not in (key, header)]
        keys.insert(rng.randint(0, len(keys)), key)
        if is_list:
            shown, columns = _list(rng, keys, is_dated=rng.random() < 0.3)
        else:
            others = [word for word in rng.sample(words, rng.randint(0, 1)) if word != header]
            titles = [rng.choice(words), *rng.sample([header, *others], 1 + len(others))]
            shown, columns = _table(rng, keys, titles, is_sheet=rng.random() < 0.5)
        if is_early:
            walk.append((Observation(shown), call("outlook.search", query=key)))
            shown = f"m{rng.randint(100, 999)} {rng.choice(words)}"
        walk.append((Observation(shown), answer(columns[of][key])))
    return walk


def _shown(rng: Random, words: Sequence[str]) -> tuple[str, _Columns]:
    """A table of a document, a sheet or a list as apps show it."""
    count, form, is_wide = rng.randint(2, MOST_ROWS), rng.randrange(3), rng.choice((1, 1, 1, 1, 2)) == 2
    drawn = rng.sample(words, 2 * count + 3)
    keys, others, (kind, *headers) = drawn[:count], drawn[count : 2 * count], drawn[2 * count :]
    if form == 2:
        listing, by_name = _list(rng, keys, is_dated=is_wide)
        is_by_name = rng.random() < 0.7
        return listing, by_name if is_by_name else {"name": {one: name for name, one in by_name["id"].items()}}
    return _table(rng, keys, [kind, *headers[: 1 + is_wide]], is_sheet=not form, others=others)


def _list(rng: Random, keys: Sequence[str], *, is_dated: bool) -> tuple[str, _Columns]:
    """Lines that begin with an id and end with a word."""
    ids = [f"{letter}{each}" for letter in rng.choice("mefc") for each in rng.sample(range(100, 1000), len(keys))]
    dates = [f"{_date(rng.randint(0, 60))} " if is_dated else "" for _ in ids]
    listing = "\n".join(f"{one} {date}{name}" for one, date, name in zip(ids, dates, keys, strict=True))
    return listing, {"id": dict(zip(keys, ids, strict=True))}


def _table(
    rng: Random, keys: Sequence[str], header: Sequence[str], *, is_sheet: bool, others: Sequence[str] = ()
) -> tuple[str, _Columns]:
    """A first column of words, then some of numbers; at times of ``others``, where there are any."""
    columns = {}
    for of in header[1:]:
        values = others if others and rng.random() < 0.2 else _numbers(rng, len(keys))
        columns[of] = dict(zip(keys, values, strict=True))
    rows = [header, *([key, *(found[key] for found in columns.values())] for key in keys)]
    return _sheet(rows) if is_sheet else f"1 table: {' / '.join(' | '.join(row) for row in rows)}", columns


def _numbers(rng: Random, count: int) -> list[str]:
    """That all differ."""
    return [str(number) for number in rng.sample(range(2, 1000), count)]


def table_walk(number: int, words: Sequence[str]) -> Walk:
    """A table in a document or a sheet; what it says of one thing is told, mailed or put on a slide."""
    rng = Random(f"table/{number}")
    count, width = rng.randint(2, MOST_ROWS), rng.randint(1, 2)
    drawn = rng.sample(words, count + width + 3)
    keys, headers, (kind, *title) = drawn[:count], drawn[count : count + width], drawn[count + width :]
    rows = [[key, *(str(rng.randint(2, 999)) for _ in headers)] for key in keys]
    row, column = rng.randrange(count), rng.randrange(width)
    file = f"f{rng.randint(100, 999)}"
    wanted, found = f"the {headers[column]} of {keys[row]}", rows[row][column + 1]
    asked, end = _told(rng, wanted, found, " ".join(title))
    if rng.random() < 0.5:
        listing = " / ".join(" | ".join(each) for each in rows)
        shown = f"1 (title) {' '.join(title)}\n2 table: {' | '.join((kind, *headers))} / {listing}"
        opening = call("word.read_paragraphs", id=file)
    else:
        shown = _sheet([[kind, *headers], *rows])
        opening = call("excel.read_range", id=file)
    return [(Observation(f"{file}: {asked}"), opening), (Observation(shown), end)]


def _told(rng: Random, wanted: str, found: str, title: str) -> tuple[str, Action]:
    """How something is asked for, and what is then done with it."""
    way = rng.randrange(4)
    if way == 0:
        file = f"f{rng.randint(100, 999)}"
        slide = call("powerpoint.add_slide", id=file, title=title, content=found)
        return f"put {wanted} on a slide {title} of {file}", slide
    if way == 1:
        send = call("outlook.send", to=["ann.lee"], subject=title, body=found)
        return f"mail {wanted} to ann.lee, subject {title}", next(agreed(send))
    return f"tell me {wanted}", answer(found)


def _sheet(rows: Sequence[Sequence[str]]) -> str:
    """As ``excel.read_range`` shows cells from A1 on."""
    letters = " | ".join("ABCD"[: len(rows[0])])
    return "\n".join([f"columns {letters}", *(f"{place}: {' | '.join(row)}" for place, row in enumerate(rows, 1))])


def _date(day: int) -> str:
    """Of a year whose months all have 28 days."""
    return f"2026-{1 + day // 28:02d}-{1 + day % 28:02d}"
