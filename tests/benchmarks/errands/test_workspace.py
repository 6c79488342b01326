"""The state of errands: differences, stored form and hash."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.errands.workspace import Event, Mail, Message, Workspace, changes, fresh_id, state_hash
from upturn.records import fields_json, from_fields


def test_equal_workspaces_have_no_differences(office: Workspace) -> None:
    assert changes(office, office) == {}


def test_every_kind_of_change_is_found_by_its_path(office: Workspace) -> None:
    after = office.with_mail(replace(office.mails["m11"], folder="archive", is_read=True))
    after = after.with_mail(Mail("m100", "sent", "me", ("bob", "cid"), "hi", "b", is_read=True))
    after = after.with_event(replace(office.events["e21"], start=8)).with_event(Event("e100", "demo", "fri", 8, 9))
    after = after.without_event("e23").with_cell("costs", "B2", "41").with_cell("costs", "A3", "")
    after = after.with_message(Message("finish"))  # messages are not changes of the workspace
    assert changes(office, after) == {
        "mail/m11/folder": "archive",
        "mail/m11/is_read": True,
        "event/e21/start": 8,
        "sheet/costs/A3": None,
        "sheet/costs/B2": "41",
        "mail/+": [
            {
                "folder": "sent",
                "sender": "me",
                "recipients": ["bob", "cid"],
                "subject": "hi",
                "body": "b",
                "is_read": True,
            }
        ],
        "event/+": [{"title": "demo", "day": "fri", "start": 8, "end": 9, "attendees": []}],
        "event/-": ["e23"],
    }


def test_new_items_are_compared_by_content_not_by_id_or_order(office: Workspace) -> None:
    first, second = Event("e100", "demo", "fri", 8, 9), Event("e101", "call", "fri", 8, 9)
    one = office.with_event(first).with_event(second)
    other = office.with_event(replace(second, id="e7")).with_event(replace(first, id="e8"))
    assert changes(office, one) == changes(office, other)


def test_removed_mails_are_listed(office: Workspace) -> None:
    assert changes(office, replace(office, mails={})) == {"mail/-": ["m11", "m12", "m13"]}


def test_copies_share_unchanged_parts(office: Workspace) -> None:
    moved = office.with_mail(replace(office.mails["m11"], folder="archive"))
    assert office.mails["m11"].folder == "inbox"
    assert moved.mails["m12"] is office.mails["m12"]
    assert moved.sheets is office.sheets


def test_fresh_id_is_the_lowest_free_number_above_99() -> None:
    assert fresh_id("m", {}) == "m100"
    assert fresh_id("m", {"m100": 0, "m102": 0}) == "m101"


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
mails = st.builds(
    Mail,
    texts,
    texts,
    texts,
    st.lists(texts, max_size=3).map(tuple),
    texts,
    texts,
    is_read=st.booleans(),
)


@given(st.lists(mails, max_size=4, unique_by=lambda mail: mail.id))
@settings(max_examples=50)
def test_workspace_and_hash_survive_storing(drawn: list[Mail]) -> None:
    workspace = Workspace({mail.id: mail for mail in drawn}, {}, {}, ("ann",))
    stored = from_fields(Workspace, fields_json(workspace))
    assert stored == workspace
    assert state_hash(stored) == state_hash(workspace)


def test_hash_is_independent_of_the_order_of_writing(office: Workspace) -> None:
    assert state_hash(office.with_cell("costs", "A1", "item")) == state_hash(office)
    one = office.with_cell("costs", "C1", "x").with_cell("costs", "C2", "y")
    assert state_hash(one) == state_hash(office.with_cell("costs", "C2", "y").with_cell("costs", "C1", "x"))


def test_hash_is_pinned_and_covers_every_part(office: Workspace) -> None:
    assert state_hash(office) == "a7ff7715a61ca97a"
    others = [
        office.with_mail(replace(office.mails["m11"], is_read=True)),
        office.with_event(replace(office.events["e22"], attendees=("ann",))),
        office.with_cell("costs", "C9", "x"),
        office.with_message(Message("ask", "x")),
        replace(office, contacts=("ann",)),
    ]
    assert len({state_hash(workspace) for workspace in [office, *others]}) == 6
