"""Drills of reading tables and lists: looking up the neighbouring cell."""

from collections.abc import Mapping, Sequence
from random import Random

from upturn.environments.office.generation import answer
from upturn.records import Observation
from upturn.training.pretraining.demonstration import Step, Walk

MOST_ROWS = 9
MOST_QUESTIONS = 6


def pairs_walk(number: int, words: Sequence[str]) -> Walk:
    """Words with a number each, repeated in another order: every other output token is a look-up."""
    rng = Random(f"pairs/{number}")
    count = rng.randint(3, 8)
    found = dict(zip(rng.sample(words, count), _numbers(rng, count), strict=True))
    asked = rng.sample(sorted(found), min(count, MOST_QUESTIONS))
    shown = " ".join(f"{word} {value}" for word, value in found.items())
    return [Step(Observation(shown), answer(" ".join(f"{word} {found[word]}" for word in asked)))]


def turned_walk(number: int, words: Sequence[str]) -> Walk:
    """As ``pairs``, but line by line, with the number or id before its word, as in lists."""
    rng = Random(f"turned/{number}")
    count, letter = rng.randint(3, 8), rng.choice(("", rng.choice("mefc")))
    values = [f"{letter}{each}" for each in rng.sample(range(100, 1000), count)]
    found = dict(zip(rng.sample(words, count), values, strict=True))
    asked = rng.sample(sorted(found), min(count, MOST_QUESTIONS))
    shown = "\n".join(f"{value} {word}" for word, value in found.items())
    return [Step(Observation(shown), answer(" ".join(f"{word} {found[word]}" for word in asked)))]


def rows_walk(number: int, words: Sequence[str]) -> Walk:
    """A table or a list, repeated like ``pairs``: the value in one column for each row's first word."""
    rng = Random(f"rows/{number}")
    shown, columns = _shown(rng, words)
    asked = rng.choice(sorted(columns))
    found = columns[asked]
    told = rng.sample(sorted(found), min(len(found), MOST_QUESTIONS))
    return [Step(Observation(f"{shown}\n{asked}"), answer(" ".join(f"{key} {found[key]}" for key in told)))]


def questions_walk(number: int, words: Sequence[str]) -> Walk:
    """Several questions about one table or list, which is shown with the first one."""
    rng = Random(f"questions/{number}")
    shown, columns = _shown(rng, words)
    cells = [(of, key) for of, found in columns.items() for key in found]
    walk = []
    for place, (of, key) in enumerate(rng.sample(sorted(cells), min(len(cells), MOST_QUESTIONS))):
        asked = rng.choice(("what is the {of} of {key}?", "the {of} of {key}", "{key}: {of}?")).format(
            of=of, key=key
        )
        walk.append(Step(Observation(asked if place else f"{shown}\n{asked}"), answer(columns[of][key])))
    return walk


def _shown(rng: Random, words: Sequence[str]) -> tuple[str, Mapping[str, Mapping[str, str]]]:
    """A document table, a sheet or a list as apps show it, and the value beside each word by column."""
    count, form, width = rng.randint(2, MOST_ROWS), rng.randrange(3), rng.choice((1, 1, 1, 1, 2))
    drawn = rng.sample(words, 2 * count + 3)
    keys, others, (kind, *headers) = drawn[:count], drawn[count : 2 * count], drawn[2 * count :]
    if form == 2:
        ids = [f"{letter}{each}" for letter in rng.choice("mefc") for each in rng.sample(range(100, 1000), count)]
        dates = [f"{_date(rng.randint(0, 60))} " if width == 2 else "" for _ in ids]
        listing = "\n".join(f"{one} {date}{name}" for one, date, name in zip(ids, dates, keys, strict=True))
        by_name = {"id": dict(zip(keys, ids, strict=True))}
        return listing, by_name if rng.random() < 0.7 else {"name": dict(zip(ids, keys, strict=True))}
    columns = {
        header: dict(zip(keys, others if rng.random() < 0.2 else _numbers(rng, count), strict=True))
        for header in headers[:width]
    }
    rows = [[kind, *columns], *([key, *(found[key] for found in columns.values())] for key in keys)]
    return f"1 table: {' / '.join(' | '.join(row) for row in rows)}" if form else _sheet(rows), columns


def _numbers(rng: Random, count: int) -> list[str]:
    """Distinct numbers as text."""
    return [str(number) for number in rng.sample(range(2, 1000), count)]


def _sheet(rows: Sequence[Sequence[str]]) -> str:
    """As ``excel.read_range`` shows cells from A1 on."""
    letters = " | ".join("ABCD"[: len(rows[0])])
    return "\n".join([f"columns {letters}", *(f"{place}: {' | '.join(row)}" for place, row in enumerate(rows, 1))])


def _date(day: int) -> str:
    """A date of a year whose months all have 28 days."""
    return f"2026-{1 + day // 28:02d}-{1 + day % 28:02d}"
