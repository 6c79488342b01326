"""Unmet parts of a goal."""

from typing import Any

from upturn.environments.office.goal import unmet_paths
from upturn.environments.office.state import Workspace

DESK = Workspace("ann.lee", "2026-03-02 09:00")


def test_a_required_removal_is_not_met_by_doing_nothing() -> None:
    goal = {"files/f1/sheets/data/filters/B": None, "mails/m1/flag": "none"}
    assert unmet_paths(DESK, goal, {}) == list(goal)
    assert unmet_paths(DESK, goal, {"mails/m1/flag": "none"}) == ["files/f1/sheets/data/filters/B"]
    assert unmet_paths(DESK, goal, {"files/f1/sheets/data/filters/B": "x"}) == list(goal)
    assert unmet_paths(DESK, goal, goal) == []


def test_case_and_blanks_do_not_matter_in_what_people_read() -> None:
    first: dict[str, Any] = {"sender": "bob.ray", "text": "when?"}
    last: dict[str, Any] = {"sender": "ann.lee", "text": "at two"}
    one: dict[str, Any] = {"body": "all good here", "to": ["cid.moe"]}
    other: dict[str, Any] = {"body": "See you", "to": ["bob.ray"]}
    goal: dict[str, Any] = {
        "mails/+": [one, other],
        "chats/c1/posts": [first, last],
        "events/e1/place": "room 4",
        "files/f1/blocks": "plan",
    }
    sent: Any = [{**one, "body": "ALL good  here"}, {**other, "body": "see you"}]
    actual: dict[str, Any] = {
        "mails/+": sent,
        "chats/c1/posts": [first, {**last, "text": "At two "}],
        "events/e1/place": "Room 4",
        "files/f1/blocks": "Plan",
    }
    assert unmet_paths(DESK, goal, actual) == ["files/f1/blocks"]
    assert unmet_paths(DESK, goal, {**actual, "mails/+": sent[::-1]}) == [
        "files/f1/blocks"
    ]  # they stand in any order
    assert unmet_paths(DESK, goal, {**actual, "mails/+": sent[:1]}) == ["mails/+", "files/f1/blocks"]
    assert unmet_paths(DESK, goal, {**actual, "chats/c1/posts": [last, first]}) == [
        "chats/c1/posts",
        "files/f1/blocks",
    ]
    assert unmet_paths(DESK, goal, {**actual, "mails/+": [{**one, "body": "all goodhere"}, other]})[0] == "mails/+"
