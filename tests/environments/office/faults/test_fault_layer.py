"""Observations and effects of calls hit by app faults."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from upturn.environments.office.apps import tools
from upturn.environments.office.faults import (
    Fault,
    FaultKind,
    FaultPlan,
    FaultState,
    Outcome,
    RateLimit,
    apply_with_faults,
)
from upturn.environments.office.state import OperationError, Persona, Wish, Workspace, changes
from upturn.models import read_call
from upturn.records import JsonValue

Desk = Callable[..., Workspace]
AgreedCalls = Callable[[str], tuple[str, str, str]]
AGREEABLE = Persona(wishes=tuple(Wish(tool.target, tool.operation) for tool in tools()))


class Office:
    """Ann's workspace under a plan, call after call."""

    last: Outcome
    """The outcome of the last call."""

    def __init__(self, workspace: Workspace, *faults: Fault, plan: FaultPlan | None = None) -> None:
        self.start = self.workspace = workspace
        self.state = FaultState(FaultPlan(faults) if plan is None else plan)

    def do(self, *calls: str) -> str:
        """The observation of the last call, after the code of an error."""
        for call in calls:
            action = read_call(call)
            assert action is not None, call
            self.last = apply_with_faults(self.workspace, self.state, action)
            self.workspace, self.state = self.last.workspace, self.last.state
        error, effect = self.last.error, self.last.effect
        return f"{error.code}: {error}" if error is not None else effect.text if effect is not None else ""

    @property
    def changes(self) -> dict[str, Any]:
        """Changes since the start, with files by final path."""
        return changes(
            FaultState(self.state.plan).with_moved_files(self.start), self.state.with_moved_files(self.workspace)
        )

    @property
    def hit(self) -> list[str]:
        """Kinds of the faults that hit the last call."""
        return list(self.last.faults)

    @property
    def kinds(self) -> list[str]:
        """Kinds of the faults that occurred."""
        return [item.kind for item in self.state.injected]


@pytest.fixture
def office(desk: Desk) -> Callable[..., Office]:
    """Returns a function that creates an office with these faults and a user who agrees to everything."""
    return lambda *faults, **further: Office(desk(AGREEABLE), *faults, **further)


FLAG = "outlook.flag ids=m10"


def test_a_rate_limit_ends_after_the_stated_wait(office: Callable[..., Office]) -> None:
    at = office(Fault("rate_limited", "outlook", 2, seconds=30.0))

    assert at.do("outlook.search query=lunch", FLAG) == (
        "rate_limited: 429 too many calls of outlook; retry after 30 s"
    )
    assert (at.last.faults, at.last.was_reported, at.workspace.elapsed) == (("rate_limited",), False, 1)
    assert at.do("calendar.list day=2026-03-02", "user.wait seconds=20", FLAG) == (
        "rate_limited: 429 too many calls of outlook; retry after 9 s"
    )
    assert at.last.was_reported
    assert at.do("user.wait seconds=9", FLAG) == "flagged"
    assert (at.changes, at.kinds) == ({"mails/m10/flag": "flagged"}, ["rate_limited"])


def test_a_rate_limit_window_resets(office: Callable[..., Office]) -> None:
    at = office(plan=FaultPlan(limits=(RateLimit("outlook", 2, 60.0),)))

    assert at.do("outlook.search", "outlook.search", FLAG) == (
        "rate_limited: 429 too many calls of outlook; retry after 58 s"
    )
    assert at.do("user.wait seconds=58", FLAG) == "flagged"
    assert at.do("outlook.search", FLAG).startswith("rate_limited: ")
    assert at.kinds == ["rate_limited", "rate_limited"]


def test_repeated_unavailability_counts_as_one_fault(office: Callable[..., Office]) -> None:
    at = office(Fault("unavailable", "outlook.flag", times=2))

    assert at.do(FLAG) == "unavailable: 503 outlook is not available now; try again"
    assert (at.do(FLAG), at.last.was_reported) == (
        "unavailable: 503 outlook is not available now; try again",
        False,
    )
    assert at.changes == {}
    assert at.do(FLAG) == "flagged"
    assert at.kinds == ["unavailable"]


@pytest.mark.parametrize(("kind", "is_done"), [("timeout", False), ("lost_answer", True)])
def test_timeout_and_lost_answer_look_the_same(
    office: Callable[..., Office], agreed_calls: AgreedCalls, kind: FaultKind, *, is_done: bool
) -> None:
    at = office(Fault(kind, "outlook.send", seconds=20.0))
    send = "outlook.send to=bob.ray; subject=hello; body=see you"

    assert at.do(*agreed_calls(send)) == (
        "timed_out: 504 outlook.send gave no answer in 20 s; it may have been done"
    )
    assert at.workspace.elapsed == 5 + 60 + 20
    assert ("bob.ray" in at.do("outlook.search folder=sent; subject=hello")) is False  # ann is the sender
    assert ("hello" in at.do("outlook.search folder=sent")) is is_done
    assert list(at.changes) == (["mails/+"] if is_done else [])
    assert len(at.workspace.confirmed) == (0 if is_done else 1)  # what was not done may still be


def test_a_read_without_answer_has_no_effect(office: Callable[..., Office]) -> None:
    at = office(Fault("timeout", "outlook"), Fault("lost_answer", "outlook"))
    assert at.do("outlook.search") == "timed_out: 504 outlook.search gave no answer in 30 s"
    assert at.do("outlook.search query=lunch").startswith("m11 ")
    assert at.do(FLAG) == "timed_out: 504 outlook.flag gave no answer in 30 s; it may have been done"


@pytest.mark.parametrize(
    ("call", "reply", "changed"),
    [
        (
            "outlook.move ids=m10,m11,m13; folder=archive",
            "done for m10, m11; not for m13",
            {"mails/m10/folder": "archive", "mails/m11/folder": "archive"},
        ),
        (
            'excel.write_range id=f50; at=A3; rows=[["ink", 7], ["tape", 8]]',
            "1 of 2 rows were written; the last one was not",
            {"files/f50/sheets/Q3/cells/A3": "ink", "files/f50/sheets/Q3/cells/B3": "7"},
        ),
        (
            "calendar.invite id=e23; people=bob.ray,cid.moe",
            "done for bob.ray; not for cid.moe",
            {"events/e23/attendees": [{"person": "bob.ray", "response": "none"}]},
        ),
    ],
)
def test_a_partial_write_omits_the_last_item(
    office: Callable[..., Office], call: str, reply: str, changed: dict[str, JsonValue]
) -> None:
    at = office(Fault("partial_write"))
    assert at.do("outlook.flag ids=m10; flag=none", call) == f"partial: 207 {reply}"
    assert at.changes == changed


def test_a_partial_mail_omits_the_last_recipient_and_uses_up_the_agreement(
    office: Callable[..., Office], agreed_calls: AgreedCalls
) -> None:
    at = office(Fault("partial_write", "outlook.send"))
    reply = at.do(*agreed_calls("outlook.send to=bob.ray,cid.moe,dana.fox; subject=hello; body=see you"))
    assert reply == "partial: 207 done for bob.ray, cid.moe; not for dana.fox"
    assert [change["to"] for change in at.changes["mails/+"]] == [["bob.ray", "cid.moe"]]
    assert not at.workspace.confirmed


def test_reads_after_a_write_are_stale_for_a_while_with_a_notice(office: Callable[..., Office]) -> None:
    at = office(Fault("stale_read", "outlook", seconds=45.0))

    assert at.do("outlook.search folder=later") == "no mails"  # before anything was written nothing is old
    assert at.do("outlook.move ids=m11; folder=later", "outlook.search folder=later") == (
        "no mails\n(as it was 1 s ago)"
    )
    assert at.hit == ["stale_read"]
    assert at.do("outlook.search folder=inbox; sender=dana.fox").startswith("m14 ")  # the same before and after
    assert at.hit == []
    assert at.do("user.wait seconds=43", "outlook.search folder=later").startswith("m11 ")
    assert at.kinds == ["stale_read"]


def test_asking_the_user_grants_a_missing_permission(office: Callable[..., Office]) -> None:
    at = office(Fault("no_permission", "outlook.flag", person="dana.fox"))
    refused = "no_permission: 403 no permission for outlook.flag: dana.fox decides; ask the user"

    assert (at.do(FLAG), at.last.was_reported) == (refused, False)
    assert (at.do(FLAG), at.last.was_reported) == (refused, True)
    assert at.do("user.ask text=may i?") == "dana.fox has given the permission, try again"
    assert at.last.effect is not None
    assert at.last.effect.costs == {}
    assert at.do(FLAG) == "flagged"
    assert at.do("user.ask text=may i do more?") == "it is all in what I asked for"
    assert [item.is_recoverable for item in at.state.injected] == [True]


def test_a_denied_permission_stays_denied(office: Callable[..., Office]) -> None:
    at = office(Fault("no_permission", "outlook.flag", person="dana.fox", is_lasting=True))
    assert at.do(FLAG, "user.ask text=may i?") == "dana.fox denies it"
    assert at.do(FLAG) == "no_permission: 403 no permission for outlook.flag: dana.fox decides; ask the user"
    assert at.changes == {}
    assert [(item.is_recoverable, item.is_answered) for item in at.state.injected] == [(False, True)]


def test_a_file_moves_at_its_first_mention_and_search_finds_it(office: Callable[..., Office]) -> None:
    at = office(Fault("moved", file="f50", to_id="f99", to_path="/archive/q3.xlsx"))

    assert at.do("sharepoint.search query=q3") == "f50 /finance/q3.xlsx"
    with pytest.raises(OperationError, match="no file 'f99'"):
        at.do("excel.open id=f99")
    assert at.do("excel.read_range id=f50") == "moved: 301 f50 has moved; sharepoint.search finds it"
    assert at.changes == {}  # it is nobody's work
    assert (at.do("excel.read_range id=f50"), at.last.was_reported) == (
        "moved: 301 f50 has moved; sharepoint.search finds it",
        True,
    )
    assert at.do("sharepoint.search query=q3") == "f99 /archive/q3.xlsx"
    at.do("excel.write_range id=f99; at=B2; rows=[[50]]")
    assert at.changes == {"files/f99/sheets/Q3/cells/B2": "50"}
    assert at.kinds == ["moved"]


@pytest.mark.parametrize(
    ("call", "message", "hard"),
    [
        ("fax.explode x=f50", "unknown app 'fax'", ""),
        ("excel.open id=f50; nothing=1", "unknown parameter 'nothing'", ""),
        ("excel.read_range id=f50; sheet=nothing", "no sheet 'nothing'", ""),
        ("sharepoint.delete ids=f50; is_permanent=true", "nothing is deleted for good", "permanent_delete"),
    ],
)
def test_an_invalid_call_moves_no_file(office: Callable[..., Office], call: str, message: str, hard: str) -> None:
    at = office(Fault("moved", file="f50", to_id="f99", to_path="/archive/q3.xlsx"))
    with pytest.raises(OperationError, match=message) as refused:
        at.do(call)
    assert refused.value.hard == hard
    assert at.do("sharepoint.search query=q3") == "f50 /finance/q3.xlsx"
    assert at.state.injected == ()


def test_a_move_during_a_preview_is_recovered_by_the_app_not_by_the_user(
    office: Callable[..., Office], agreed_calls: AgreedCalls
) -> None:
    at = office(Fault("moved", file="f50", to_id="f99", to_path="/archive/q3.xlsx"))
    shown, _, _ = agreed_calls("sharepoint.delete ids=f50")
    at.do(shown, "user.ask text=which one?")
    assert [(item.call, item.is_answered) for item in at.state.injected] == [("sharepoint.delete", False)]
    at.do("sharepoint.search query=q3")
    assert at.state.injected[0].is_answered


def test_a_preview_mentions_the_file_and_an_answer_does_not(
    office: Callable[..., Office], agreed_calls: AgreedCalls
) -> None:
    at = office(Fault("moved", file="f51", to_id="f99", to_path="/archive/plan.docx"))
    shown, _, _ = agreed_calls("sharepoint.set_permissions id=f51; people=bob.ray; right=read")
    assert at.do("user.ask text=is f51 right?") == "it is all in what I asked for"
    assert at.do(shown) == "moved: 301 f51 has moved; sharepoint.search finds it"


def test_ordinary_refusals_are_neither_hidden_nor_counted(office: Callable[..., Office]) -> None:
    at = office(Fault("unavailable", "outlook", 2))
    with pytest.raises(OperationError, match="no mail 'm99'"):
        at.do("outlook.read id=m99")
    with pytest.raises(OperationError, match="has not agreed"):
        at.do("outlook.reply id=m10; body=yes")
    assert at.do("outlook.search query=lunch").startswith("m11 ")
    assert at.do("outlook.search query=lunch").startswith("unavailable: ")


def test_a_call_hit_by_one_fault_does_not_reach_later_faults(office: Callable[..., Office]) -> None:
    at = office(Fault("unavailable", "outlook.flag"), Fault("lost_answer", "outlook"))
    codes = [at.do(FLAG).split(":", maxsplit=1)[0] for _ in range(3)]
    assert codes == ["unavailable", "timed_out", "flagged"]


def test_random_faults_hit_the_same_calls_on_replay(office: Callable[..., Office]) -> None:
    plan = FaultPlan(rates={"unavailable": 0.3, "lost_answer": 0.2}, seed=3)
    at, again = office(plan=plan), office(plan=plan)
    answers = [at.do(FLAG) for _ in range(12)]
    assert answers == [again.do(FLAG) for _ in range(12)]
    assert [answer.split(":")[0] for answer in answers] == [
        {"unavailable": "unavailable", "lost_answer": "timed_out", None: "flagged"}[plan.random_kind(call)]
        for call in range(1, 13)
    ]
    assert set(at.kinds) == {"unavailable", "lost_answer"}


def test_without_a_plan_nothing_is_counted(office: Callable[..., Office]) -> None:
    at = office()
    at.do("outlook.search", FLAG)
    assert at.state == FaultState()


def test_only_waiting_passes_time(desk: Desk) -> None:
    at = Office(desk(AGREEABLE))
    assert at.do("user.wait seconds=90") == "it is 2026-03-02 09:01"
    assert at.workspace == replace(at.start, elapsed=90.0)
    for seconds in ("0", "-1", "nan", "3601"):
        with pytest.raises(OperationError, match="seconds"):
            at.do(f"user.wait seconds={seconds}")
