"""Drills of reading tables and lists: looking up the neighbouring cell."""

from collections.abc import Mapping, Sequence
from random import Random

from upturn.environments.office.generation import answer
from upturn.records import Observation
from upturn.training.pretraining.demonstration import Demonstration, Step

MAX_ROWS = 9
MAX_QUESTIONS = 6


def pairs_drill(number: int, words: Sequence[str]) -> Demonstration:
    """Words with a number each, repeated in another order: every other output token is a look-up."""
    rng = Random(f"pairs/{number}")
    count = rng.randint(3, 8)
    values = dict(zip(rng.sample(words, count), _numbers(rng, count), strict=True))
    keys = rng.sample(sorted(values), min(count, MAX_QUESTIONS))
    return [_lookup(" ".join(f"{word} {value}" for word, value in values.items()), values, keys)]


def turned_drill(number: int, words: Sequence[str]) -> Demonstration:
    """As ``pairs``, but line by line, with the number or id before its word, as in lists."""
    rng = Random(f"turned/{number}")
    count, letter = rng.randint(3, 8), rng.choice(("", rng.choice("mefc")))
    ids = [f"{letter}{digits}" for digits in rng.sample(range(100, 1000), count)]
    values = dict(zip(rng.sample(words, count), ids, strict=True))
    keys = rng.sample(sorted(values), min(count, MAX_QUESTIONS))
    return [_lookup("\n".join(f"{value} {word}" for word, value in values.items()), values, keys)]


def rows_drill(number: int, words: Sequence[str]) -> Demonstration:
    """A table or a list, repeated like ``pairs``: the value in one column for each row's first word."""
    rng = Random(f"rows/{number}")
    table, columns = _table(rng, words)
    header = rng.choice(sorted(columns))
    values = columns[header]
    keys = rng.sample(sorted(values), min(len(values), MAX_QUESTIONS))
    return [_lookup(f"{table}\n{header}", values, keys)]


def questions_drill(number: int, words: Sequence[str]) -> Demonstration:
    """Several questions about one table or list, which is shown with the first one."""
    rng = Random(f"questions/{number}")
    table, columns = _table(rng, words)
    cells = [(header, key) for header, values in columns.items() for key in values]
    steps = []
    for index, (header, key) in enumerate(rng.sample(sorted(cells), min(len(cells), MAX_QUESTIONS))):
        template = rng.choice(("what is the {of} of {key}?", "the {of} of {key}", "{key}: {of}?"))
        question = template.format(of=header, key=key)
        text = question if index else f"{table}\n{question}"
        steps.append(Step(Observation(text), answer(columns[header][key])))
    return steps


def _lookup(text: str, values: Mapping[str, str], keys: Sequence[str]) -> Step:
    """The text, answered by these keys and their values."""
    return Step(Observation(text), answer(" ".join(f"{key} {values[key]}" for key in keys)))


def _table(rng: Random, words: Sequence[str]) -> tuple[str, Mapping[str, Mapping[str, str]]]:
    """A document table, a sheet or a list as apps show it, and each column's value by the row's first word."""
    count, form, width = rng.randint(2, MAX_ROWS), rng.randrange(3), rng.choice((1, 1, 1, 1, 2))
    drawn = rng.sample(words, 2 * count + 3)
    keys, others, (kind, *headers) = drawn[:count], drawn[count : 2 * count], drawn[2 * count :]
    if form == 2:
        ids = [
            f"{letter}{digits}" for letter in rng.choice("mefc") for digits in rng.sample(range(100, 1000), count)
        ]
        dates = [f"{_date(rng.randint(0, 60))} " if width == 2 else "" for _ in ids]
        listing = "\n".join(f"{name} {date}{key}" for name, date, key in zip(ids, dates, keys, strict=True))
        by_name = {"id": dict(zip(keys, ids, strict=True))}
        return listing, by_name if rng.random() < 0.7 else {"name": dict(zip(ids, keys, strict=True))}
    columns = {
        header: dict(zip(keys, others if rng.random() < 0.2 else _numbers(rng, count), strict=True))
        for header in headers[:width]
    }
    rows = [[kind, *columns], *([key, *(values[key] for values in columns.values())] for key in keys)]
    return f"1 table: {' / '.join(' | '.join(row) for row in rows)}" if form else _sheet(rows), columns


def _numbers(rng: Random, count: int) -> list[str]:
    """Distinct numbers as text."""
    return [str(number) for number in rng.sample(range(2, 1000), count)]


def _sheet(rows: Sequence[Sequence[str]]) -> str:
    """The rows as ``excel.read_range`` shows cells from A1 on."""
    letters = " | ".join("ABCD"[: len(rows[0])])
    return "\n".join([f"columns {letters}", *(f"{index}: {' | '.join(row)}" for index, row in enumerate(rows, 1))])


def _date(day: int) -> str:
    """A date of a year whose months all have 28 days."""
    return f"2026-{1 + day // 28:02d}-{1 + day % 28:02d}"
