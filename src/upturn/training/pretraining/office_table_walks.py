"""Drills of reading tables: what stands beside something, and which row is as somebody says."""

from collections.abc import Mapping, Sequence
from random import Random

from upturn.environments.office.family import agreed, answer, call
from upturn.records import Action, Observation
from upturn.training.pretraining.demonstration import Walk

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


def _shown(rng: Random, words: Sequence[str]) -> tuple[str, Mapping[str, Mapping[str, str]]]:
    """A table of a document, a sheet or a list as apps show it, and by column what stands beside each word."""
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


def late_walk(number: int, words: Sequence[str]) -> Walk:
    """A list of who has to do what until when: one open thing is late, and it or who has it is asked for."""
    rng = Random(f"late/{number}")
    count, today = rng.randint(2, MOST_ROWS), rng.randint(36, 62)
    people = rng.sample([word for word in words if "." in word], count)
    things = rng.sample([word for word in words if "." not in word], count)
    late = rng.randrange(count)
    rows = []
    for place, (thing, person) in enumerate(zip(things, people, strict=True)):
        is_past = place == late or rng.random() < 0.4
        due = today - rng.randint(1, 30) if is_past else today + rng.randint(0, 15)
        state = "open" if place == late or (not is_past and rng.random() < 0.6) else "done"
        rows.append([thing, person, _date(due), state])
    file = f"f{rng.randint(100, 999)}"
    wanted, found = rng.choice((("who is late", people[late]), ("what is late", things[late])))
    asked, end = _told(rng, wanted, found, rng.choice(things))
    shown = _sheet([["task", "person", "due", "state"], *rows])
    words_of = f"{file}: today is {_date(today)}; {asked}"
    return [(Observation(words_of), call("excel.read_range", id=file)), (Observation(shown), end)]


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
