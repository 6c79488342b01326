"""The demonstrations of ``nano``: oracle solutions of office tasks, and drills of single skills.

Each is a pure function of its kind and number. The drills of tables are in ``office_table_drills``.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from random import Random

from upturn.environments.office import FAMILIES, LATER, OfficeKit, compose, make_task
from upturn.environments.office.generation import answer, call, refusal, with_agreement
from upturn.environments.office.state import PATIENCE
from upturn.models import value_text
from upturn.records import Action, Observation, Task
from upturn.training.pretraining.demonstration import PRETRAINING_STREAM, Demonstration, Step, demonstrate
from upturn.training.pretraining.office_table_drills import pairs_drill, questions_drill, rows_drill, turned_drill

UNDRILLED = ("more_than_a_hundred", "second_thoughts")
"""Families excluded from drills: one is too long for the context, the other allows no immediate action."""
APPROVAL_FAMILIES = (
    *("mail_reply", "mail_forward", "mail_send_number", "chat_message", "reply_outside"),
    *("mail_attachment", "book_to_mail", "chat_answer"),
    *("budget_mailed_to_whoever_asks", "channel_question_answered"),
)
"""Families in which the user must agree to a text or a number."""
GIVEN_UP = 0.2
"""Share of the ``declined`` drills in which every proposal is wrong, until the user's patience ends."""
WORLDS = 48
"""Tasks of each family that drills take their calls and words from."""
GARBLED = 0.07
"""Share of words removed, of words replaced, and of words followed by an inserted one."""


def oracle_demonstration(family: str, number: int) -> Demonstration:
    """The oracle's solution of a training task."""
    task = training_task(family, number)
    actions = ((action, False) for action in compose(task).draft.oracle)
    return demonstrate(OfficeKit().environment(task), task, actions)


def training_task(family: str, number: int) -> Task:
    """A training task that no run draws.

    Every third instruction has missing or wrong words: the model then relies on more than one word, and generalises
    to unseen phrasings.
    """
    task = make_task(family, PRETRAINING_STREAM + number)
    scenario = compose(task)
    instruction = scenario.instruction
    if number % 3 == 0:
        index = task.context["template"]
        assert isinstance(index, int)  # make_task writes it
        template, slots = FAMILIES[family].templates[index], scenario.draft.slots
        garbled = _garbled(Random(f"garbled/{family}/{number}"), template)
        instruction = instruction.replace(template.format(**slots), garbled.format(**slots))
    return replace(task, instruction=instruction)


def _garbled(rng: Random, template: str) -> str:
    """The template with some words removed, replaced or inserted; its slots are unchanged."""
    words = []
    for word in template.split(" "):
        drawn = rng.random()
        if "{" in word or drawn >= 3 * GARBLED:
            words.append(word)
        elif drawn >= GARBLED:  # below: removed
            other = rng.choice(_template_words())
            words += [other] if drawn < 2 * GARBLED else [word, other]
    return " ".join(words)


@cache
def _template_words() -> Sequence[str]:
    """The words of all families' templates."""
    texts = (text for name in drilled_families() for text in FAMILIES[name].templates)
    return sorted({word for text in texts for word in re.findall(r"[a-z]+", re.sub(r"\{\w+\}", " ", text))})


def echo_drill(number: int) -> Demonstration:
    """Unrelated words to repeat, which needs copying alone."""
    rng = Random(f"echo/{number}")
    text = _unrelated_words(rng)
    template = rng.choice(('say "{}"', 'answer with "{}"', 'repeat "{}"', "{}: say this"))
    return [Step(Observation(_briefing(rng, 0.2) + template.format(text)), answer(text))]


def order_drill(number: int) -> Demonstration:
    """One operation of any task, requested explicitly."""
    rng = Random(f"order/{number}")
    action = rng.choice(_oracle_calls(rng.choice(drilled_families()), rng.randrange(WORLDS)))
    parameters = list(action.parameters.items())
    if rng.random() < 0.5:
        rng.shuffle(parameters)
    forms = ("{} {}", "{} is {}", '{} "{}"')
    parts = [rng.choice(forms).format(name.replace("_", " "), value_text(value)) for name, value in parameters]
    operation = f"{action.target} {action.operation}".replace("_", " ")
    template = rng.choice(("{}: {}", "{} with {}", "please {}, {}", "do {}; {}"))
    request = template.format(operation, rng.choice((", ", " and ", "; ")).join(parts))
    return [Step(Observation(_briefing(rng, 0.4) + request), action)]


def pick_drill(number: int) -> Demonstration:
    """A list of objects, of which one is requested by id or name."""
    rng = Random(f"pick/{number}")
    count, letter = rng.randint(2, 7), rng.choice("mefc")
    ids = [f"{letter}{digits}" for digits in rng.sample(range(100, 1000), count)]
    words = rng.sample(_slot_words(), 2 * count)
    names = [f"{first} {second}" for first, second in zip(words[::2], words[1::2], strict=True)]
    rows = [
        f"{object_id} {_moment(rng) + ' ' if rng.random() < 0.5 else ''}{name}"
        for object_id, name in zip(ids, names, strict=True)
    ]
    listing, index = "\n".join(rows), rng.randrange(count)
    if rng.random() < 0.5:
        key, value = names[index], ids[index]
        question = f"which one is {key}?"
    else:
        key, value = ids[index], names[index]
        question = f"what is {key}?"
    if rng.random() < 0.5:
        return [Step(Observation(f"{listing}\n{question}"), answer(value))]
    search = call("outlook.search", query=key)
    return [Step(Observation(question), search), Step(Observation(listing), answer(value))]


def sift_drill(number: int) -> Demonstration:
    """A list of objects, of which all of one kind are requested: their ids, in the list's order."""
    rng = Random(f"sift/{number}")
    count, letter = rng.randint(2, 6), rng.choice("mefc")
    kind, other_kind = rng.sample(_slot_words(), 2)
    matching = sorted(rng.sample(range(count), rng.randint(1, min(count, 3))))
    ids = [f"{letter}{digits}" for digits in rng.sample(range(100, 1000), count)]
    are_others_unmarked = rng.random() < 0.5
    rows = []
    for index, object_id in enumerate(ids):
        mark = kind if index in matching else "" if are_others_unmarked else other_kind
        rows.append(f"{object_id} {_moment(rng)} {rng.choice(_slot_words())} *{f' [{mark}]' if mark else ''}")
    search = call("outlook.search", subject=kind)
    listing, matching_ids = "\n".join(rows), ",".join(ids[index] for index in matching)
    return [Step(Observation(f"which ones are {kind}?"), search), Step(Observation(listing), answer(matching_ids))]


def declined_drill(number: int) -> Demonstration:
    """The oracle's solution after one or two wrong proposals, which are not trained on.

    When the user's patience ends, it ends with a refusal: declined actions are not executed.
    """
    rng = Random(f"declined/{number}")
    task = training_task(rng.choice(APPROVAL_FAMILIES), number)
    oracle = compose(task).draft.oracle
    preview_index = next(index for index, action in enumerate(oracle) if action.operation == "preview")
    proposed, is_given_up = oracle[preview_index + 2], rng.random() < GIVEN_UP
    actions = [(action, False) for action in oracle[:preview_index]]
    for _ in range(PATIENCE if is_given_up else 1):
        preview, confirm, _ = with_agreement(_mistaken(rng, proposed))
        actions += [(preview, True), (confirm, False)]
    ending = [refusal("you did not agree")] if is_given_up else oracle[preview_index:]
    actions += [(action, False) for action in ending]
    return demonstrate(OfficeKit().environment(task), task, actions)


def _mistaken(rng: Random, action: Action) -> Action:
    """The action with one word or number of its text removed, replaced or inserted."""
    name = next(name for name in ("body", "text", "subject") if name in action.parameters)
    text = str(action.parameters[name])
    changed = text
    while changed == text:
        parts = text.split(" ")
        index = rng.randrange(len(parts))
        other = str(rng.randint(2, 999)) if parts[index].isdigit() else rng.choice(_slot_words())
        parts[index : index + 1] = rng.choice(([], [other], [parts[index], other]) if parts[1:] else ([other],))
        changed = " ".join(parts)
    return replace(action, parameters={**action.parameters, name: changed})


def _unrelated_words(rng: Random) -> str:
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
            parts.append(" ".join(rng.choice(_slot_words()) for _ in range(rng.randint(1, 2))))
    return rng.choice((" ", " ", ",")).join(parts)


def _moment(rng: Random) -> str:
    day = f"2026-0{rng.randint(1, 3)}-{rng.randint(1, 28):02d}"
    return f"{day} {rng.randint(8, 17):02d}:{rng.choice((0, 15, 30, 45)):02d}" if rng.random() < 0.6 else day


def _briefing(rng: Random, share: float) -> str:
    """The first line of a task, which names the user and the time, in a share of the drills; else empty."""
    if rng.random() >= share:
        return ""
    person = rng.choice([word for word in _slot_words() if "." in word])
    first, last = person.title().split(".")
    return f"you work for {person} ({first} {last}, {person}@contoso.example). it is monday, 2026-03-02 09:00.\n"


@cache
def drilled_families() -> Sequence[str]:
    """Families used for drills and the tokenizer; none of ``LATER``."""
    return tuple(name for name in FAMILIES if name not in UNDRILLED and name not in LATER)


@cache
def _oracle_calls(family: str, number: int) -> Sequence[Action]:
    """The oracle's app calls in one of the family's tasks."""
    draft = compose(make_task(family, PRETRAINING_STREAM + number)).draft
    return tuple(action for action in draft.oracle if action.target != "user" and action.parameters)


@cache
def _slot_words() -> Sequence[str]:
    """Words and names in the slots of tasks."""
    words: set[str] = set()
    for family in drilled_families():
        for number in range(WORLDS):
            for value in compose(make_task(family, PRETRAINING_STREAM + number)).draft.slots.values():
                words.update(re.findall(r"[a-z]+\.[a-z]+|[a-z]+", value))
    return sorted(words)


_DRILLS: Mapping[str, Callable[[int], Demonstration]] = {
    "echo": echo_drill,
    "order": order_drill,
    "pick": pick_drill,
    "sift": sift_drill,
    "pairs": lambda number: pairs_drill(number, _slot_words()),
    "turned": lambda number: turned_drill(number, _slot_words()),
    "rows": lambda number: rows_drill(number, _slot_words()),
    "questions": lambda number: questions_drill(number, _slot_words()),
    "declined": declined_drill,
}


def demonstration(kind: str, number: int) -> Demonstration:
    """The ``number``-th demonstration of a family, or of a drill such as ``echo`` or ``order``."""
    return _DRILLS[kind](number) if kind in _DRILLS else oracle_demonstration(kind, number)
