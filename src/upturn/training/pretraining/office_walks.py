"""The demonstrations of ``nano``: oracle solutions of office tasks, and copying drills with the office's words."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from random import Random

from upturn.environments.office import FAMILIES, LATER, OfficeKit, compose, make_task
from upturn.environments.office.generation import answer, call
from upturn.models import value_text
from upturn.records import Action, Observation, Task
from upturn.training.pretraining.demonstration import PRETRAINING_STREAM, Step, Walk, walked
from upturn.training.pretraining.office_declined_walk import declined_walk
from upturn.training.pretraining.office_table_walks import (
    pairs_walk,
    questions_walk,
    rows_walk,
    turned_walk,
)

UNDRILLED = ("more_than_a_hundred", "second_thoughts")
"""Families excluded from drills: one is too long for the context, the other allows no immediate action."""
WORLDS = 48
"""Tasks of each family that drills take their calls and words from."""
GARBLED = 0.07
"""Share of words removed, of words replaced, and of words followed by an inserted one."""


def oracle_walk(family: str, number: int) -> Walk:
    """The oracle's walk through a training task."""
    task = training_task(family, number)
    return walked(OfficeKit().environment(task), task, ((each, False) for each in compose(task).draft.oracle))


def training_task(family: str, number: int) -> Task:
    """A training task that no run draws.

    Every third instruction has missing or wrong words: the model then relies on more than one word, and generalises
    to unseen phrasings.
    """
    task = make_task(family, PRETRAINING_STREAM + number)
    scenario = compose(task)
    instruction = scenario.instruction
    if number % 3 == 0:
        template = task.context["template"]
        assert isinstance(template, int)  # make_task writes it
        words = FAMILIES[family].templates[template]
        garbled = _garbled(Random(f"garbled/{family}/{number}"), words)
        slots = scenario.draft.slots
        instruction = instruction.replace(words.format(**slots), garbled.format(**slots))
    return replace(task, instruction=instruction)


def _garbled(rng: Random, template: str) -> str:
    """The template with some words removed, replaced or inserted; its slots are unchanged."""
    words = []
    for word in template.split(" "):
        drawn = rng.random()
        if "{" in word or drawn >= 3 * GARBLED:
            words.append(word)
        elif drawn >= GARBLED:  # below: left out
            other = rng.choice(_template_words())
            words += [other] if drawn < 2 * GARBLED else [word, other]
    return " ".join(words)


@cache
def _template_words() -> Sequence[str]:
    """The words of all families' templates."""
    texts = (text for name in drilled() for text in FAMILIES[name].templates)
    return sorted({word for text in texts for word in re.findall(r"[a-z]+", re.sub(r"\{\w+\}", " ", text))})


def echo_walk(number: int) -> Walk:
    """Unrelated words to repeat, which needs copying alone."""
    rng = Random(f"echo/{number}")
    text = _anything(rng)
    words = rng.choice(('say "{}"', 'answer with "{}"', 'repeat "{}"', "{}: say this"))
    return [Step(Observation(_briefing(rng, 0.2) + words.format(text)), answer(text))]


def order_walk(number: int) -> Walk:
    """One operation of any task, requested explicitly."""
    rng = Random(f"order/{number}")
    action = rng.choice(_calls(rng.choice(drilled()), rng.randrange(WORLDS)))
    given = list(action.parameters.items())
    if rng.random() < 0.5:
        rng.shuffle(given)
    ways = ("{} {}", "{} is {}", '{} "{}"')
    said = [rng.choice(ways).format(name.replace("_", " "), value_text(value)) for name, value in given]
    operation = f"{action.target} {action.operation}".replace("_", " ")
    words = rng.choice(("{}: {}", "{} with {}", "please {}, {}", "do {}; {}"))
    asked = words.format(operation, rng.choice((", ", " and ", "; ")).join(said))
    return [Step(Observation(_briefing(rng, 0.4) + asked), action)]


def pick_walk(number: int) -> Walk:
    """A list of objects, of which one is requested by id or name."""
    rng = Random(f"pick/{number}")
    count, kind = rng.randint(2, 7), rng.choice("mefc")
    ids = [f"{kind}{each}" for each in rng.sample(range(100, 1000), count)]
    words = rng.sample(_words(), 2 * count)
    names = [f"{one} {other}" for one, other in zip(words[::2], words[1::2], strict=True)]
    rows = [
        f"{each} {_moment(rng) + ' ' if rng.random() < 0.5 else ''}{name}"
        for each, name in zip(ids, names, strict=True)
    ]
    listing, place = "\n".join(rows), rng.randrange(count)
    is_by_name = rng.random() < 0.5
    asked, found = (names[place], ids[place]) if is_by_name else (ids[place], names[place])
    words_of = f"which one is {asked}?" if is_by_name else f"what is {asked}?"
    if rng.random() < 0.5:
        return [Step(Observation(f"{listing}\n{words_of}"), answer(found))]
    search = call("outlook.search", query=asked)
    return [Step(Observation(words_of), search), Step(Observation(listing), answer(found))]


def sift_walk(number: int) -> Walk:
    """A list of objects, of which all of one kind are requested: their ids, in the list's order."""
    rng = Random(f"sift/{number}")
    count, letter = rng.randint(2, 6), rng.choice("mefc")
    one, other = rng.sample(_words(), 2)
    meant = sorted(rng.sample(range(count), rng.randint(1, min(count, 3))))
    ids = [f"{letter}{each}" for each in rng.sample(range(100, 1000), count)]
    is_marked = rng.random() < 0.5
    rows = []
    for place, name in enumerate(ids):
        mark = one if place in meant else "" if is_marked else other
        rows.append(f"{name} {_moment(rng)} {rng.choice(_words())} *{f' [{mark}]' if mark else ''}")
    search = call("outlook.search", subject=one)
    asked = f"which ones are {one}?"
    told = answer(",".join(ids[i] for i in meant))
    return [Step(Observation(asked), search), Step(Observation("\n".join(rows)), told)]


def _anything(rng: Random) -> str:
    parts = []
    for _ in range(rng.randint(2, 5)):
        kind = rng.randrange(6)
        if kind == 0:
            parts.append(f"{rng.choice('mefc')}{rng.randint(100, 999)}")
        elif kind == 1:
            parts.append(_moment(rng))
        elif kind == 2:
            parts.append(str(rng.randint(2, rng.choice((99, 999, 9999)))))
        else:
            parts.append(" ".join(rng.choice(_words()) for _ in range(rng.randint(1, 2))))
    return rng.choice((" ", " ", ",")).join(parts)


def _moment(rng: Random) -> str:
    day = f"2026-0{rng.randint(1, 3)}-{rng.randint(1, 28):02d}"
    return f"{day} {rng.randint(8, 17):02d}:{rng.choice((0, 15, 30, 45)):02d}" if rng.random() < 0.6 else day


def _briefing(rng: Random, share: float) -> str:
    """The line on whom the agent works for, as in tasks, in a share of the drills."""
    if rng.random() >= share:
        return ""
    person = rng.choice([word for word in _words() if "." in word])
    first, last = person.title().split(".")
    return f"you work for {person} ({first} {last}, {person}@contoso.example). it is monday, 2026-03-02 09:00.\n"


@cache
def drilled() -> Sequence[str]:
    """Families used for drills and the tokenizer; none of ``LATER``."""
    return tuple(name for name in FAMILIES if name not in UNDRILLED and name not in LATER)


@cache
def _calls(family: str, place: int) -> Sequence[Action]:
    """The oracle's app calls in one of the family's tasks."""
    draft = compose(make_task(family, PRETRAINING_STREAM + place)).draft
    return tuple(each for each in draft.oracle if each.target != "user" and each.parameters)


@cache
def _words() -> Sequence[str]:
    """Words and names in the slots of tasks."""
    found: set[str] = set()
    for family in drilled():
        for place in range(WORLDS):
            for value in compose(make_task(family, PRETRAINING_STREAM + place)).draft.slots.values():
                found.update(re.findall(r"[a-z]+\.[a-z]+|[a-z]+", value))
    return sorted(found)


_DRILLS: Mapping[str, Callable[[int], Walk]] = {
    "echo": echo_walk,
    "order": order_walk,
    "pick": pick_walk,
    "sift": sift_walk,
    "pairs": lambda number: pairs_walk(number, _words()),
    "turned": lambda number: turned_walk(number, _words()),
    "rows": lambda number: rows_walk(number, _words()),
    "questions": lambda number: questions_walk(number, _words()),
    "declined": lambda number: declined_walk(number, training_task, _words()),
}


def walk(kind: str, number: int) -> Walk:
    """The ``number``-th walk of a family, or of a drill, as ``echo`` or ``order``."""
    return _DRILLS[kind](number) if kind in _DRILLS else oracle_walk(kind, number)
