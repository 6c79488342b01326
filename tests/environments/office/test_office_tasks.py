"""Tasks on mails, calendars and chats: careless work fails, other correct solutions succeed."""

import re
from collections.abc import Callable, Iterable
from typing import TypeAlias

import pytest

from upturn.environments.office.generation.family import FINISH, call, refusal, with_agreement
from upturn.environments.office.state.clock import add_minutes, minutes_between
from upturn.records import Action, Evaluation, Task, Trajectory

from .conftest import cases

Rollout: TypeAlias = Callable[[Task, Iterable[Action]], tuple[Trajectory, Evaluation]]
FailedGates: TypeAlias = Callable[[Task, Iterable[Action]], list[str]]


def ids_of(action: Action) -> list[str]:
    """Returns the ids of the mails in an action."""
    return str(action.parameters["ids"]).split(",")


def test_mails_may_be_deleted_one_by_one(failed_gates: FailedGates) -> None:
    for task, scenario in cases("mail_newsletter"):
        ids = ids_of(scenario.draft.oracle[-2])
        one_by_one = [step for id_ in ids for step in with_agreement(call("outlook.delete", ids=id_))]
        assert failed_gates(task, [*one_by_one, FINISH]) == []
        assert failed_gates(task, [*one_by_one[:-3], FINISH]) == ["goal"]


def test_a_message_may_be_sent_by_the_id_of_the_chat(failed_gates: FailedGates) -> None:
    tried = 0
    for task, scenario in cases("chat_answer"):
        draft = scenario.draft
        tried += len(draft.also)
        for other in draft.also:
            assert failed_gates(task, [*draft.oracle[:3], *with_agreement(other), FINISH]) == []
    assert tried > 0


@pytest.mark.parametrize("family", ["mail_flag", "mail_move", "mail_unread"])
def test_mails_that_only_look_alike_must_stay_as_they_are(family: str, failed_gates: FailedGates) -> None:
    for task, scenario in cases(family):
        search, act, finish = scenario.draft.oracle
        topic = search.parameters["subject"]
        alike = [mail.id for mail in scenario.workspace.mails.values() if mail.subject == topic]
        careless = Action(act.target, act.operation, {**act.parameters, "ids": ",".join(alike)})
        assert len(alike) > len(ids_of(act))
        assert failed_gates(task, [search, careless, finish]) in (["untouched"], ["goal", "untouched"])


def test_the_number_in_a_mail_that_only_looks_alike_is_wrong(failed_gates: FailedGates) -> None:
    for task, scenario in cases("mail_number"):
        bodies = [
            mail.body
            for mail in scenario.workspace.mails.values()
            if mail.subject == scenario.draft.slots["topic"] and mail.sender != scenario.draft.slots["name"]
        ]
        assert len(bodies) == 1
        number = next(word for word in bodies[0].replace(".", " ").split() if word.isdigit())
        assert failed_gates(task, [call("user.answer", text=number)]) == ["answer"]


def test_the_user_declines_a_reply_to_one_instead_of_all_and_a_draft_to_somebody_else(
    failed_gates: FailedGates, rollout: Rollout
) -> None:
    for task, scenario in cases("mail_reply_all"):
        search, *_, reply, finish = scenario.draft.oracle
        to_one = {key: value for key, value in reply.parameters.items() if key != "to_all"}
        work = [search, *with_agreement(call("outlook.reply", **to_one))]
        trajectory, evaluation = rollout(task, [*work, finish])
        assert trajectory.turns[3].observation.text == "no: that is not what I asked for"
        assert not evaluation.is_success
    for task, scenario in cases("mail_send_draft"):
        search, *_, send, finish = scenario.draft.oracle
        for mail in scenario.workspace.mails.values():
            if mail.folder == "drafts" and mail.id != send.parameters["draft"]:
                work = [search, *with_agreement(call("outlook.send", draft=mail.id))]
                assert failed_gates(task, [*work, finish]) == ["goal"]


@pytest.mark.parametrize("family", ["mail_forward_if", "event_cancel"])
def test_refusing_succeeds_with_the_right_name_only_and_only_where_it_cannot_be_done(
    family: str, failed_gates: FailedGates
) -> None:
    observed = set()
    for task, scenario in cases(family, 20):
        draft = scenario.draft
        observed.add(draft.is_feasible)
        other = next(id_ for id_ in scenario.workspace.people if id_ != draft.answer)
        assert failed_gates(task, [refusal(other)]) != []
        assert failed_gates(task, [refusal(", ".join(scenario.workspace.people))]) != []
        assert (failed_gates(task, [refusal(draft.answer or "nobody")]) == []) == (not draft.is_feasible)
    assert observed == {True, False}


@pytest.mark.parametrize("family", ["event_book", "event_book_later"])
def test_a_booking_is_at_the_first_time_free_for_everybody(family: str) -> None:
    for _, scenario in cases(family, 10):
        workspace, draft = scenario.workspace, scenario.draft
        *requests, booking, _ = draft.oracle
        people = str(requests[0].parameters["people"]).split(",")
        minutes = int(draft.slots["minutes"])
        busy = [event for event in workspace.events.values() if any(event.concerns(who) for who in people)]
        assert workspace.owner in people
        first = None
        for day in (str(action.parameters["day"]) for action in requests):
            starts = [add_minutes(f"{day} 08:00", minutes=5 * step) for step in range((600 - minutes) // 5 + 1)]
            ends = [add_minutes(start, minutes=minutes) for start in starts]
            result = [
                start
                for start, end in zip(starts, ends, strict=True)
                if not any(event.overlaps(start, end) for event in busy)
            ]
            first = first or (result[0] if result else None)
        assert booking.parameters["start"] == first
        assert booking.parameters["end"] == add_minutes(str(first), minutes=minutes)
        assert str(first)[11:] > "08:00"


def test_a_booking_is_at_the_first_offered_free_time() -> None:
    chosen = set()
    for _, scenario in cases("chat_meeting", 15):
        search, _, creation, _ = scenario.draft.oracle
        workspace, meeting = scenario.workspace, creation.parameters
        day, start = str(meeting["start"]).split()
        minutes = minutes_between(str(meeting["start"]), str(meeting["end"]))
        posts = [post.text for chat in workspace.chats.values() for post in chat.posts]
        text = next(post for post in posts if str(search.parameters["query"]) in post)
        offered = re.findall(r"\d\d:\d\d", text)
        assert len(offered) == 3
        mine = [event for event in workspace.events.values() if event.concerns(workspace.owner)]
        free = [
            item
            for item in offered
            if not any(
                event.overlaps(f"{day} {item}", add_minutes(f"{day} {item}", minutes=minutes)) for event in mine
            )
        ]
        assert start == free[0]
        assert f"{minutes} minutes" in text
        chosen.add(offered.index(start))
    assert chosen == {0, 1, 2}
