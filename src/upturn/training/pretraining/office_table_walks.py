"""Drills of reading tables: what stands beside something, and which row is as somebody says."""

from collections.abc import Sequence
from random import Random

from upturn.environments.office.family import agreed, answer, call
from upturn.records import Action, Observation
from upturn.training.pretraining.demonstration import Walk

MOST_ROWS = 9


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
