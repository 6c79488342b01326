"""Tasks of other families with app faults: the same phrasings and the same goal."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from upturn.environments.office.apps import operation_of
from upturn.environments.office.families.calendar import CHANGES, SCHEDULING
from upturn.environments.office.families.cross_app import MEETINGS, TRANSFERS, WORKFLOWS
from upturn.environments.office.families.files import WORKBOOKS
from upturn.environments.office.families.mail import READING, SORTING, WRITING
from upturn.environments.office.families.teams import CHANNELS, CHATS
from upturn.environments.office.faults import LIST_PARAMETERS, Fault, FaultKind, FaultPlan, RateLimit
from upturn.environments.office.generation import (
    LONG_FOLDERS,
    LOOKUPS,
    PHRASES,
    SHORT_FOLDERS,
    Draft,
    Family,
    Obstacle,
    Scene,
    call,
    oracle_under_faults,
    with_agreement,
)
from upturn.records import Action

Planned: TypeAlias = Callable[[Scene, Draft], FaultPlan]
"""Draws the fault plan of a case, after everything else. Its name is part of the family's name."""

_MAIL = (*READING, *SORTING, *WRITING)
_ONE_APP = (*_MAIL, *SCHEDULING, *CHANGES, *CHATS, *CHANNELS, *WORKBOOKS)
_BASES = {family.name: family for family in (*_ONE_APP, *TRANSFERS, *MEETINGS, *WORKFLOWS)}


def _writes(draft: Draft) -> list[Action]:
    """The oracle's writing actions, without reading mails."""
    return [
        action
        for action in draft.oracle
        if action.target != "user" and not operation_of(action).is_reading and action.name != "outlook.read"
    ]


def _choose_call(scene: Scene, draft: Draft, among: Sequence[Action]) -> tuple[str, int]:
    """A random action among these, as faults refer to it: operation and occurrence, from 1."""
    chosen = scene.rng.choice(among)
    same = [action for action in draft.oracle if action.name == chosen.name]
    return chosen.name, next(nth for nth, action in enumerate(same, start=1) if action is chosen)


def interrupted(scene: Scene, draft: Draft) -> FaultPlan:
    """One or two faults that refuse calls for a while, with or without a stated time."""
    rng, plan = scene.rng, FaultPlan()
    calls = [action for action in draft.oracle if action.target != "user"]
    for _ in range(rng.choice((1, 1, 2))):
        name, nth = _choose_call(scene, draft, calls)
        if rng.random() < 0.5:
            plan += FaultPlan((Fault("rate_limited", name, nth, seconds=rng.choice((20.0, 30.0, 60.0, 90.0))),))
        else:
            plan += FaultPlan((Fault("unavailable", name, nth, times=rng.choice((1, 2))),))
    return plan


def unanswered(scene: Scene, draft: Draft) -> FaultPlan:
    """A call without answer that may have been done; if it was, reads may be stale."""
    rng = scene.rng
    name, nth = _choose_call(scene, draft, [write for write in _writes(draft) if write.name in LOOKUPS])
    if rng.random() < 0.5:
        return FaultPlan((Fault("timeout", name, nth, seconds=rng.choice((20.0, 30.0))),))
    plan = FaultPlan((Fault("lost_answer", name, nth, seconds=rng.choice((20.0, 30.0))),))
    app = name.split(".", 1)[0]
    names = [write.name for write in _writes(draft) if write.target == app]
    number = [index for index, other in enumerate(names, start=1) if other == name][nth - 1]
    stale = FaultPlan((Fault("stale_read", app, number, seconds=rng.choice((45.0, 90.0))),))
    return plan + stale if rng.random() < 0.5 else plan


def partly(scene: Scene, draft: Draft) -> FaultPlan:
    """A write of several items that omits the last one."""
    several = [write for write in _writes(draft) if _has_several_items(write)]
    if not several:
        return interrupted(scene, draft)
    name, nth = _choose_call(scene, draft, several)
    writes = [write for write in several if write.name == name]
    same = [action for action in draft.oracle if action.name == name]
    return FaultPlan((Fault("partial_write", name, writes.index(same[nth - 1]) + 1),))


def _has_several_items(action: Action) -> bool:
    value = action.parameters.get(LIST_PARAMETERS.get(action.name, ""))
    return isinstance(value, list) and len(value) > 1


def relocated(scene: Scene, draft: Draft) -> FaultPlan:
    """A file that moves before it is used, to a folder that its lookalike may also have."""
    values = [value for action in draft.oracle for value in action.parameters.values()]
    texts = [value for value in values if isinstance(value, str)]
    items = [str(item) for value in values if isinstance(value, list) for item in value]
    file = next(scene.workspace.files[id_] for id_ in (*texts, *items) if id_ in scene.workspace.files)
    folder = file.path.split("/")[1]
    folders = LONG_FOLDERS if folder in LONG_FOLDERS else SHORT_FOLDERS
    path = f"/{scene.rng.choice([other for other in folders if other != folder])}/{file.name}"
    return FaultPlan((Fault("moved", file=file.id, to_id=scene.id("f"), to_path=path),))


def denied(scene: Scene, draft: Draft) -> FaultPlan:
    """A missing permission, granted or denied on request."""
    first = _writes(draft)[0]
    names = {str(value) for action in draft.oracle for value in action.parameters.values()} | set(
        draft.slots.values()
    )
    person = next(other for other in scene.people(20) if other not in names)
    is_lasting = scene.rng.random() < 0.5
    return FaultPlan((Fault("no_permission", first.name, person=person, is_lasting=is_lasting),))


def throttled(scene: Scene, draft: Draft) -> FaultPlan:
    """A rate limit of a few calls a minute."""
    apps = [action.target for action in draft.oracle if action.target != "user"]
    app = max(apps, key=apps.count)
    return FaultPlan(limits=(RateLimit(app, min(scene.rng.choice((2, 3, 4)), apps.count(app) - 1)),))


def weathered(scene: Scene, draft: Draft) -> FaultPlan:  # noqa: ARG001  # plans are drawn from both
    """Random faults of any call."""
    rates: dict[FaultKind, float] = {"unavailable": 0.1, "timeout": 0.05, "lost_answer": 0.1, "rate_limited": 0.05}
    return FaultPlan(rates=rates, seed=scene.rng.randrange(1_000_000))


def everything(scene: Scene, draft: Draft) -> FaultPlan:
    """Calls without answer together with calls that are refused for a while."""
    return unanswered(scene, draft) + interrupted(scene, draft)


def faulty(base: Family, planned: Planned, *, level: int) -> Family:
    """The family with faults, named after both."""

    def draw(scene: Scene) -> Draft:
        draft = base.draw(scene)
        plan = planned(scene, draft)
        oracle, done = oracle_under_faults(scene.workspace, plan, draft.oracle)
        lasting = next((fault.person for fault in plan.faults if fault.is_lasting), None)
        if lasting is None:
            return replace(draft, oracle=oracle, faults=plan, oracle_result=done)
        refused = replace(draft, answer=lasting, is_feasible=False, obstacle=Obstacle("denied"))
        return replace(refused, oracle=oracle, faults=plan, oracle_result=done)

    atoms = (*base.atoms, "faults")
    name, worded_as = f"{base.name}_{planned.__name__}", base.worded_as or base.name
    return replace(base, name=name, worded_as=worded_as, level=level, draw=draw, atoms=atoms)


def _to_several(scene: Scene) -> Draft:
    rng, people = scene.rng, scene.people(scene.rng.choice((2, 3)))
    subject, phrase = f"{rng.choice(('news', 'reminder', 'question'))} {rng.randint(10, 99)}", rng.choice(PHRASES)
    return Draft.with_finish(
        {"people": " and ".join(people), "subject": f'"{subject}"', "phrase": f'"{phrase}"'},
        *with_agreement(call("outlook.send", to=[*sorted(people)], subject=subject, body=phrase)),
    )


SEVERAL_PEOPLE = Family("mail_to_several", 2, ("outlook",), _to_several)


def _faulty(planned: Planned, levels: Mapping[str, int]) -> Iterator[Family]:
    """Families with these faults; ``levels``: the new level by the name of the original family."""
    return (faulty(_BASES[name], planned, level=level) for name, level in levels.items())


FAMILIES = (
    *_faulty(
        interrupted,
        {"mail_two_hops": 3, "event_book": 3, "row_set": 3, "chat_answer": 3, "figure_filed_and_confirmed": 4},
    ),
    *_faulty(unanswered, {"mail_reply": 3, "mail_draft": 2, "event_create_with": 3, "channel_post_number": 3}),
    *_faulty(unanswered, {"decisions_to_slide": 4, "meeting_from_chat": 4}),
    *_faulty(partly, {"mail_newsletter": 3, "event_invite": 3, "mail_move": 3}),
    faulty(SEVERAL_PEOPLE, partly, level=3),
    *_faulty(relocated, {"cell_set": 2, "table_sort": 2, "book_to_mail": 3, "mail_attachment": 4}),
    *_faulty(denied, {"event_move": 2, "channel_post": 3, "mail_forward": 3, "late_one_reminded": 4}),
    *_faulty(throttled, {"mail_unread_sum": 3, "mail_last_word": 3}),
    *_faulty(weathered, {"mail_send_number": 4, "budget_mailed_to_whoever_asks": 4, "weekly_report": 5}),
    *_faulty(everything, {"onboarding": 5, "incident_follow_up": 5}),
)
