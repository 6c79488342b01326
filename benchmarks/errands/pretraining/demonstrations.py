"""Pre-training data of ``nano-errands``: oracle demonstrations of errands, and drills of one operation each."""

from collections.abc import Callable
from dataclasses import replace
from random import Random

from benchmarks.errands import FAMILIES, ErrandsEnvironment, compose, make_task
from benchmarks.errands.environment import apply
from benchmarks.errands.family import CLOSERS, FINISH, OPENERS, call
from benchmarks.errands.level2 import FUNCTIONS
from benchmarks.errands.level3 import PRICES, PROPOSALS
from benchmarks.errands.operation import OperationError
from benchmarks.errands.workspace import DAYS, Mail, Workspace
from benchmarks.errands.world import FILING_FOLDERS, ITEMS, NAMES, PHRASES, SHEETS, TITLES, TOPICS, World
from upturn.records import Action, Observation
from upturn.training.pretraining import PRETRAINING_STREAM, Demonstration, Step, demonstrate

GLIMPSE = "glimpse:"
"""Prefix of a family's name: a demonstration with one of its first templates only."""
GLIMPSE_TEMPLATES = 2


def demonstration(kind: str, number: int) -> Demonstration:
    """The ``number``-th demonstration of a family, of ``glimpse:`` and a family, of ``drill`` or of ``pick``."""
    if kind == "drill":
        return drill_demonstration(number)
    if kind == "pick":
        return pick_demonstration(number)
    if kind.startswith(GLIMPSE):
        return oracle_demonstration(kind.removeprefix(GLIMPSE), number, templates=GLIMPSE_TEMPLATES)
    assert kind in FAMILIES
    return oracle_demonstration(kind, number)


def oracle_demonstration(family: str, number: int, templates: int | None = None) -> Demonstration:
    """The oracle on a training task; ``templates``: use only so many of the first templates (None = all)."""
    task = make_task(family, PRETRAINING_STREAM + number)
    if templates is not None:
        task = replace(task, context={"template": number % templates})
        task = replace(task, instruction=compose(task).instruction)
    return demonstrate(ErrandsEnvironment(), task, ((action, False) for action in compose(task).draft.oracle))


def drill_demonstration(number: int) -> Demonstration:
    """One operation with an explicit instruction, and ``finish``."""
    rng = Random(f"drill/{number}")
    workspace = _random_world(rng).fill()
    instruction, action = rng.choice(_DRILLS)(rng, workspace)
    return _demonstrate(rng, workspace, instruction, [action])


def pick_demonstration(number: int) -> Demonstration:
    """A look-up, and one operation on one of the items that it shows."""
    rng = Random(f"pick/{number}")
    world = _random_world(rng)
    instruction, actions = rng.choice(_PICKS)(rng, world)
    return _demonstrate(rng, world.fill(), instruction, actions)


def _random_world(rng: Random) -> World:
    world = World(rng)
    for _ in range(3):
        world.add_mail(rng.choice(NAMES), rng.choice(TOPICS))
        world.add_event(rng.choice(TITLES), rng.choice(DAYS))
    return world


def _demonstrate(rng: Random, workspace: Workspace, instruction: str, actions: list[Action]) -> Demonstration:
    observation = Observation(rng.choice(OPENERS) + instruction + rng.choice(CLOSERS))
    steps = []
    for action in actions if actions[-1].target == "user" else [*actions, FINISH]:
        steps.append(Step(observation, action))
        try:
            workspace, text, _ = apply(workspace, action)
            observation = Observation(text)
        except OperationError as error:
            observation = Observation(str(error), error.code)
    return steps


_Pick = Callable[[Random, World], tuple[str, list[Action]]]
"""Adds items to the world; returns an instruction and the actions that solve it."""


def _open_mail(mail: Mail) -> list[Action]:
    return [call("mail.search", from_=mail.sender, subject=mail.subject), call("mail.read", id=mail.id)]


def _pick_mail(rng: Random, world: World) -> tuple[str, list[Action]]:
    name = rng.choice(NAMES)
    topic, *others = rng.sample(TOPICS, rng.randint(2, 3))
    mail = world.add_mail(name, topic)
    for other in others:
        world.add_mail(name, other)
    template = rng.choice(("open {}'s mail about the {}", "what does {} say on the {}?", "show {} on the {}"))
    return template.format(name, topic), _open_mail(mail)


def _pick_event(rng: Random, world: World) -> tuple[str, list[Action]]:
    day = rng.choice(DAYS)
    title, *others = rng.sample(TITLES, rng.randint(2, 3))
    event = world.add_event(title, day)
    for other in others:
        world.add_event(other, day)
    template = rng.choice(("who is in the {1} on {0}?", "show me {0}'s {1}", "look up the {1} of {0}"))
    lookup = call("calendar.list", day=day, title=title)
    return template.format(day, title), [lookup, call("calendar.read", id=event.id)]


def _pick_amount(rng: Random, world: World) -> tuple[str, list[Action]]:
    name, topic, item, amount = rng.choice(NAMES), rng.choice(TOPICS), rng.choice(ITEMS), str(rng.randint(10, 99))
    mail = world.add_mail(name, topic, rng.choice(PRICES).format(item=item, number=amount))
    template = rng.choice(("which amount does {} name in the {} mail?", "what is the number in {}'s {} mail?"))
    return template.format(name, topic), [*_open_mail(mail), call("user.answer", text=amount)]


def _pick_time(rng: Random, world: World) -> tuple[str, list[Action]]:
    name, topic, day, hour = rng.choice(NAMES), rng.choice(TOPICS), rng.choice(DAYS), str(rng.randint(8, 16))
    mail = world.add_mail(name, topic, rng.choice(PROPOSALS).format(day=day, hour=hour))
    template = rng.choice(("which time does {} name in the {} mail?", "what is the date in {}'s {} mail?"))
    return template.format(name, topic), [*_open_mail(mail), call("user.answer", text=f"{day} {hour}")]


def _pick_echo(rng: Random, world: World) -> tuple[str, list[Action]]:
    name, topic, text = rng.choice(NAMES), rng.choice(TOPICS), _random_text(rng)
    mail = world.add_mail(name, topic, text)
    template = rng.choice(("quote {}'s {} mail", "what does {} write in the {} mail?"))
    return template.format(name, topic), [*_open_mail(mail), call("user.answer", text=text)]


def _pick_row(rng: Random, world: World) -> tuple[str, list[Action]]:
    sheet = world.add_sheet()
    cell = f"A{len(sheet.cells) // 2 + 1}"
    item = rng.choice([item for item in ITEMS if item not in sheet.cells.values()])
    template = rng.choice(("add {0} to the items in {1}", "new item in {1}: {0}", "put {0} below the items of {1}"))
    actions = [call("sheet.read", sheet=sheet.name), call("sheet.write", sheet=sheet.name, cell=cell, value=item)]
    return template.format(item, sheet.name), actions


_PICKS: tuple[_Pick, ...] = (_pick_mail, _pick_event, _pick_row, _pick_amount, _pick_time, _pick_echo, _pick_echo)
_Drill = Callable[[Random, Workspace], tuple[str, Action]]


def _random_mail(rng: Random, workspace: Workspace) -> str:
    return rng.choice(sorted(workspace.mails))


def _random_event(rng: Random, workspace: Workspace) -> str:
    return rng.choice(sorted(workspace.events))


def _mail_search(rng: Random, workspace: Workspace) -> tuple[str, Action]:
    mail = workspace.mails[_random_mail(rng, workspace)]
    name, topic = mail.sender, mail.subject
    template = rng.choice(
        ("find {0}'s mail on the {1}", "search the {1} mail by {0}", "did {0} write about the {1}?")
    )
    return template.format(name, topic), call("mail.search", from_=name, subject=topic)


def _mail_read(rng: Random, workspace: Workspace) -> tuple[str, Action]:
    mail = _random_mail(rng, workspace)
    return rng.choice(("read {}", "open mail {}", "show me {}")).format(mail), call("mail.read", id=mail)


def _mail_send(rng: Random, _workspace: Workspace) -> tuple[str, Action]:
    people = ",".join(sorted(rng.sample(NAMES, rng.randint(1, 2))))
    subject, body = rng.choice(TOPICS + TITLES), rng.choice(PHRASES)
    template = rng.choice(('mail {} about the {}: "{}"', 'write to {} on the {} saying "{}"'))
    return template.format(people, subject, body), call("mail.send", to=people, subject=subject, body=body)


def _mail_reply(rng: Random, workspace: Workspace) -> tuple[str, Action]:
    mail, body = _random_mail(rng, workspace), rng.choice(PHRASES)
    template = rng.choice(('reply "{1}" to {0}', 'answer {0} with "{1}"'))
    return template.format(mail, body), call("mail.reply", id=mail, body=body)


def _mail_forward(rng: Random, workspace: Workspace) -> tuple[str, Action]:
    mail, name = _random_mail(rng, workspace), rng.choice(NAMES)
    return f"forward {mail} to {name}", call("mail.forward", id=mail, to=name)


def _mail_move(rng: Random, workspace: Workspace) -> tuple[str, Action]:
    mail, folder = _random_mail(rng, workspace), rng.choice(FILING_FOLDERS)
    template = rng.choice(("{0} goes to {1}", "{1} for {0}"))
    return template.format(mail, folder), call("mail.move", id=mail, folder=folder)


def _mail_list(rng: Random, _workspace: Workspace) -> tuple[str, Action]:
    folder = rng.choice(("inbox", *FILING_FOLDERS))
    return f"list the mails in {folder}", call("mail.list", folder=folder)


def _event_list(rng: Random, workspace: Workspace) -> tuple[str, Action]:
    event = workspace.events[_random_event(rng, workspace)]
    day, title = event.day, event.title
    template = rng.choice(("find the {1} on {0}", "is there a {1} on {0}?", "list {0}'s {1}"))
    return template.format(day, title), call("calendar.list", day=day, title=title)


def _event_read(rng: Random, workspace: Workspace) -> tuple[str, Action]:
    event = _random_event(rng, workspace)
    return rng.choice(("who is in {}", "show event {}")).format(event), call("calendar.read", id=event)


def _event_move(rng: Random, workspace: Workspace) -> tuple[str, Action]:
    event, day, start = _random_event(rng, workspace), rng.choice(DAYS), str(rng.randint(8, 15))
    template = rng.choice(("move {} to {} at {}", "shift {} to {} {}"))
    return template.format(event, day, start), call("calendar.move", id=event, day=day, start=start)


def _event_cancel(rng: Random, workspace: Workspace) -> tuple[str, Action]:
    event = _random_event(rng, workspace)
    return rng.choice(("cancel {}", "drop {}", "{} is off")).format(event), call("calendar.cancel", id=event)


def _event_create(rng: Random, _workspace: Workspace) -> tuple[str, Action]:
    title, day, name, start = rng.choice(TITLES), rng.choice(DAYS), rng.choice(NAMES), rng.randint(8, 16)
    instruction = f"add a {title} with {name} on {day} from {start} to {start + 1}"
    return instruction, call(
        "calendar.create", title=title, day=day, start=str(start), end=str(start + 1), with_=name
    )


def _text_find(rng: Random, workspace: Workspace) -> tuple[str, Action]:
    sheet = next(iter(workspace.sheets.values()))
    items = [value for cell, value in sorted(sheet.cells.items()) if cell[0] == "A" and value in ITEMS]
    item = rng.choice(items)
    template = rng.choice(("find {} in {}", "where is {} in {}"))
    return template.format(item, sheet.name), call("sheet.find", sheet=sheet.name, text=item)


def _cell_write(rng: Random, _workspace: Workspace) -> tuple[str, Action]:
    sheet, cell, number = rng.choice(SHEETS), f"B{rng.randint(2, 7)}", str(rng.randint(10, 99))
    template = rng.choice(("put {2} into {1} of {0}", "set {1} in {0} to {2}", "write {2} to {1} on {0}"))
    return template.format(sheet, cell, number), call("sheet.write", sheet=sheet, cell=cell, value=number)


def _cell_formula(rng: Random, _workspace: Workspace) -> tuple[str, Action]:
    sheet, last = rng.choice(SHEETS), rng.randint(4, 6)
    word, name = rng.choice(tuple(FUNCTIONS.items()))
    template = rng.choice(
        ("put the {3} of B2 to B{1} into B{2} of {0}", "B{2} of {0} gets the {3} from B2 to B{1}")
    )
    formula = f"={name}(B2:B{last})"
    action = call("sheet.write", sheet=sheet, cell=f"B{last + 1}", value=formula)
    return template.format(sheet, last, last + 1, word), action


def _random_text(rng: Random) -> str:
    """Unrelated words, so that copied text cannot be guessed."""
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
    text = _random_text(rng)
    template = rng.choice(('say "{}"', 'answer with "{}"', 'repeat "{}"'))
    return template.format(text), call("user.answer", text=text)


def _sheet_read(_rng: Random, workspace: Workspace) -> tuple[str, Action]:
    sheet = next(iter(workspace.sheets))
    return f"show me the {sheet} sheet", call("sheet.read", sheet=sheet)


_DRILLS: tuple[_Drill, ...] = (
    _mail_search, _mail_read, _mail_send, _mail_reply, _mail_forward, _mail_move, _mail_list, _event_list,
    _event_read, _event_move, _event_cancel, _event_create, _text_find, _cell_write, _cell_formula, _sheet_read,
    _echo, _echo, _echo,
)  # fmt: skip
