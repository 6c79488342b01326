"""What ``nano-errands`` is pre-trained on: oracle walks through errands, and drills of one operation each."""

from collections.abc import Callable
from dataclasses import replace
from random import Random

from benchmarks.errands import (
    CLOSERS,
    DAYS,
    FAMILIES,
    FILING_FOLDERS,
    FINISH,
    FUNCTIONS,
    ITEMS,
    NAMES,
    OPENERS,
    PHRASES,
    PRICES,
    PROPOSALS,
    SHEETS,
    TITLES,
    TOPICS,
    ErrandsEnvironment,
    OperationError,
    Workspace,
    World,
    apply,
    call,
    compose,
    make_task,
)
from upturn.records import Action, Observation
from upturn.training.pretraining import PRETRAINING_STREAM, Step, Walk, walked


def oracle_walk(family: str, number: int, templates: int | None = None) -> Walk:
    """What the oracle of a training task sees and does; only the first ``templates`` phrasings (None = all)."""
    task = make_task(family, PRETRAINING_STREAM + number)
    if templates is not None:
        task = replace(task, context={"template": number % templates})
        task = replace(task, instruction=compose(task).instruction)
    return walked(ErrandsEnvironment(), task, ((each, False) for each in compose(task).draft.oracle))


def drill_walk(number: int) -> Walk:
    """One operation, asked for in so many words, and ``finish``: the alphabet that tasks are composed of."""
    rng = Random(f"drill/{number}")
    workspace = _drill_world(rng).fill()
    words, action = rng.choice(_DRILLS)(rng, workspace)
    return _walked(rng, workspace, words, [action])


def pick_walk(number: int) -> Walk:
    """A look-up, and one operation on the right one of what it shows."""
    rng = Random(f"pick/{number}")
    world = _drill_world(rng)
    words, actions = rng.choice(_PICKS)(rng, world)
    return _walked(rng, world.fill(), words, actions)


def _drill_world(rng: Random) -> World:
    world = World(rng)
    for _ in range(3):
        world.add_mail(rng.choice(NAMES), rng.choice(TOPICS))
        world.add_event(rng.choice(TITLES), rng.choice(DAYS))
    return world


def _walked(rng: Random, workspace: Workspace, words: str, actions: list[Action]) -> Walk:
    observation = Observation(rng.choice(OPENERS) + words + rng.choice(CLOSERS))
    walk = []
    for action in actions if actions[-1].target == "user" else [*actions, FINISH]:
        walk.append(Step(observation, action))
        try:
            workspace, text, _ = apply(workspace, action)
            observation = Observation(text)
        except OperationError as error:
            observation = Observation(str(error), error.code)
    return walk


_Pick = Callable[[Random, World], tuple[str, list[Action]]]


def _pick_mail(rng: Random, world: World) -> tuple[str, list[Action]]:
    name = rng.choice(NAMES)
    topic, *others = rng.sample(TOPICS, rng.randint(2, 3))
    mail = world.add_mail(name, topic)
    for other in others:
        world.add_mail(name, other)
    words = rng.choice(("open {}'s mail about the {}", "what does {} say on the {}?", "show {} on the {}"))
    return words.format(name, topic), [
        call("mail.search", from_=name, subject=topic),
        call("mail.read", id=mail.id),
    ]


def _pick_event(rng: Random, world: World) -> tuple[str, list[Action]]:
    day = rng.choice(DAYS)
    title, *others = rng.sample(TITLES, rng.randint(2, 3))
    event = world.add_event(title, day)
    for other in others:
        world.add_event(other, day)
    words = rng.choice(("who is in the {1} on {0}?", "show me {0}'s {1}", "look up the {1} of {0}"))
    found = call("calendar.list", day=day, title=title)
    return words.format(day, title), [found, call("calendar.read", id=event.id)]


def _pick_amount(rng: Random, world: World) -> tuple[str, list[Action]]:
    name, topic, item, amount = rng.choice(NAMES), rng.choice(TOPICS), rng.choice(ITEMS), str(rng.randint(10, 99))
    mail = world.add_mail(name, topic, rng.choice(PRICES).format(item=item, number=amount))
    words = rng.choice(("which amount does {} name in the {} mail?", "what is the number in {}'s {} mail?"))
    found = call("mail.search", from_=name, subject=topic)
    return words.format(name, topic), [found, call("mail.read", id=mail.id), call("user.answer", text=amount)]


def _pick_time(rng: Random, world: World) -> tuple[str, list[Action]]:
    name, topic, day, hour = rng.choice(NAMES), rng.choice(TOPICS), rng.choice(DAYS), str(rng.randint(8, 16))
    mail = world.add_mail(name, topic, rng.choice(PROPOSALS).format(day=day, hour=hour))
    words = rng.choice(("which time does {} name in the {} mail?", "what is the date in {}'s {} mail?"))
    found = call("mail.search", from_=name, subject=topic)
    answer = call("user.answer", text=f"{day} {hour}")
    return words.format(name, topic), [found, call("mail.read", id=mail.id), answer]


def _pick_echo(rng: Random, world: World) -> tuple[str, list[Action]]:
    name, topic, text = rng.choice(NAMES), rng.choice(TOPICS), _anything(rng)
    mail = world.add_mail(name, topic, text)
    words = rng.choice(("quote {}'s {} mail", "what does {} write in the {} mail?"))
    found = call("mail.search", from_=name, subject=topic)
    return words.format(name, topic), [found, call("mail.read", id=mail.id), call("user.answer", text=text)]


def _pick_row(rng: Random, world: World) -> tuple[str, list[Action]]:
    sheet = world.add_sheet()
    cell = f"A{len(sheet.cells) // 2 + 1}"
    item = rng.choice([item for item in ITEMS if item not in sheet.cells.values()])
    words = rng.choice(("add {0} to the items in {1}", "new item in {1}: {0}", "put {0} below the items of {1}"))
    actions = [call("sheet.read", sheet=sheet.name), call("sheet.write", sheet=sheet.name, cell=cell, value=item)]
    return words.format(item, sheet.name), actions


_PICKS: tuple[_Pick, ...] = (_pick_mail, _pick_event, _pick_row, _pick_amount, _pick_time, _pick_echo, _pick_echo)
_Drill = Callable[[Random, Workspace], tuple[str, Action]]


def _mail(rng: Random, workspace: Workspace) -> str:
    return rng.choice(sorted(workspace.mails))


def _event(rng: Random, workspace: Workspace) -> str:
    return rng.choice(sorted(workspace.events))


def _mail_search(rng: Random, workspace: Workspace) -> tuple[str, Action]:
    mail = workspace.mails[_mail(rng, workspace)]
    name, topic = mail.sender, mail.subject
    words = rng.choice(("find {0}'s mail on the {1}", "search the {1} mail by {0}", "did {0} write about the {1}?"))
    return words.format(name, topic), call("mail.search", from_=name, subject=topic)


def _mail_read(rng: Random, workspace: Workspace) -> tuple[str, Action]:
    mail = _mail(rng, workspace)
    return rng.choice(("read {}", "open mail {}", "show me {}")).format(mail), call("mail.read", id=mail)


def _mail_send(rng: Random, _workspace: Workspace) -> tuple[str, Action]:
    people = ",".join(sorted(rng.sample(NAMES, rng.randint(1, 2))))
    subject, body = rng.choice(TOPICS + TITLES), rng.choice(PHRASES)
    words = rng.choice(('mail {} about the {}: "{}"', 'write to {} on the {} saying "{}"'))
    return words.format(people, subject, body), call("mail.send", to=people, subject=subject, body=body)


def _mail_reply(rng: Random, workspace: Workspace) -> tuple[str, Action]:
    mail, body = _mail(rng, workspace), rng.choice(PHRASES)
    words = rng.choice(('reply "{1}" to {0}', 'answer {0} with "{1}"'))
    return words.format(mail, body), call("mail.reply", id=mail, body=body)


def _mail_forward(rng: Random, workspace: Workspace) -> tuple[str, Action]:
    mail, name = _mail(rng, workspace), rng.choice(NAMES)
    return f"forward {mail} to {name}", call("mail.forward", id=mail, to=name)


def _mail_move(rng: Random, workspace: Workspace) -> tuple[str, Action]:
    mail, folder = _mail(rng, workspace), rng.choice(FILING_FOLDERS)
    words = rng.choice(("{0} goes to {1}", "{1} for {0}"))
    return words.format(mail, folder), call("mail.move", id=mail, folder=folder)


def _mail_list(rng: Random, _workspace: Workspace) -> tuple[str, Action]:
    folder = rng.choice(("inbox", *FILING_FOLDERS))
    return f"list the mails in {folder}", call("mail.list", folder=folder)


def _event_list(rng: Random, workspace: Workspace) -> tuple[str, Action]:
    event = workspace.events[_event(rng, workspace)]
    day, title = event.day, event.title
    words = rng.choice(("find the {1} on {0}", "is there a {1} on {0}?", "list {0}'s {1}"))
    return words.format(day, title), call("calendar.list", day=day, title=title)


def _event_read(rng: Random, workspace: Workspace) -> tuple[str, Action]:
    event = _event(rng, workspace)
    return rng.choice(("who is in {}", "show event {}")).format(event), call("calendar.read", id=event)


def _event_move(rng: Random, workspace: Workspace) -> tuple[str, Action]:
    event, day, start = _event(rng, workspace), rng.choice(DAYS), str(rng.randint(8, 15))
    words = rng.choice(("move {} to {} at {}", "shift {} to {} {}"))
    return words.format(event, day, start), call("calendar.move", id=event, day=day, start=start)


def _event_cancel(rng: Random, workspace: Workspace) -> tuple[str, Action]:
    event = _event(rng, workspace)
    return rng.choice(("cancel {}", "drop {}", "{} is off")).format(event), call("calendar.cancel", id=event)


def _event_create(rng: Random, _workspace: Workspace) -> tuple[str, Action]:
    title, day, name, start = rng.choice(TITLES), rng.choice(DAYS), rng.choice(NAMES), rng.randint(8, 16)
    words = f"add a {title} with {name} on {day} from {start} to {start + 1}"
    return words, call("calendar.create", title=title, day=day, start=str(start), end=str(start + 1), with_=name)


def _text_find(rng: Random, workspace: Workspace) -> tuple[str, Action]:
    sheet = next(iter(workspace.sheets.values()))
    items = [value for cell, value in sorted(sheet.cells.items()) if cell[0] == "A" and value in ITEMS]
    item = rng.choice(items)
    words = rng.choice(("find {} in {}", "where is {} in {}"))
    return words.format(item, sheet.name), call("sheet.find", sheet=sheet.name, text=item)


def _cell_write(rng: Random, _workspace: Workspace) -> tuple[str, Action]:
    sheet, cell, number = rng.choice(SHEETS), f"B{rng.randint(2, 7)}", str(rng.randint(10, 99))
    words = rng.choice(("put {2} into {1} of {0}", "set {1} in {0} to {2}", "write {2} to {1} on {0}"))
    return words.format(sheet, cell, number), call("sheet.write", sheet=sheet, cell=cell, value=number)


def _cell_formula(rng: Random, _workspace: Workspace) -> tuple[str, Action]:
    sheet, last = rng.choice(SHEETS), rng.randint(4, 6)
    word, name = rng.choice(tuple(FUNCTIONS.items()))
    words = rng.choice(("put the {3} of B2 to B{1} into B{2} of {0}", "B{2} of {0} gets the {3} from B2 to B{1}"))
    formula = f"={name}(B2:B{last})"
    action = call("sheet.write", sheet=sheet, cell=f"B{last + 1}", value=formula)
    return words.format(sheet, last, last + 1, word), action


def _anything(rng: Random) -> str:
    """Some words that have nothing to do with each other: what is copied must not be guessable."""
    parts = [
        ",".join(rng.sample(NAMES, rng.randint(1, 3))),
        rng.choice(DAYS),
        str(rng.randint(8, 99)),
        rng.choice(ITEMS),
        rng.choice(TITLES),
        f"m{rng.randint(10, 99)}",
        f"e{rng.randint(10, 99)}",
        rng.choice(TOPICS),
        rng.choice(PHRASES),
        rng.choice(SHEETS),
    ]
    return " ".join(rng.sample(parts, rng.randint(2, 4)))


def _echo(rng: Random, _workspace: Workspace) -> tuple[str, Action]:
    text = _anything(rng)
    words = rng.choice(('say "{}"', 'answer with "{}"', 'repeat "{}"'))
    return words.format(text), call("user.answer", text=text)


def _sheet_read(_rng: Random, workspace: Workspace) -> tuple[str, Action]:
    sheet = next(iter(workspace.sheets))
    return f"show me the {sheet} sheet", call("sheet.read", sheet=sheet)


_DRILLS: tuple[_Drill, ...] = (
    _mail_search, _mail_read, _mail_send, _mail_reply, _mail_forward, _mail_move, _mail_list, _event_list,
    _event_read, _event_move, _event_cancel, _event_create, _text_find, _cell_write, _cell_formula, _sheet_read,
    _echo, _echo, _echo,
)  # fmt: skip


GLIMPSED = "glimpse:"
"""Before a family's name: a walk in one of its first phrasings only."""
GLIMPSED_TEMPLATES = 2


def walk(kind: str, number: int) -> Walk:
    """The ``number``-th walk of a family, of ``glimpse:`` a family, of ``drill`` or of ``pick``."""
    if kind == "drill":
        return drill_walk(number)
    if kind == "pick":
        return pick_walk(number)
    if kind.startswith(GLIMPSED):
        return oracle_walk(kind.removeprefix(GLIMPSED), number, templates=GLIMPSED_TEMPLATES)
    assert kind in FAMILIES
    return oracle_walk(kind, number)
