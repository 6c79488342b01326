"""What of a goal was not reached."""

from upturn.environments.office.goal import unmet
from upturn.environments.workspace import Workspace

DESK = Workspace("ann.lee", "2026-03-02 09:00")


def test_what_is_to_be_nothing_any_more_is_not_met_by_doing_nothing() -> None:
    goal = {"files/f1/sheets/data/filters/B": None, "mails/m1/flag": "none"}
    assert unmet(DESK, goal, {}) == list(goal)
    assert unmet(DESK, goal, {"mails/m1/flag": "none"}) == ["files/f1/sheets/data/filters/B"]
    assert unmet(DESK, goal, {"files/f1/sheets/data/filters/B": "x"}) == list(goal)
    assert unmet(DESK, goal, goal) == []


def test_case_and_blanks_do_not_matter_in_what_people_read() -> None:
    posts = [{"sender": "bob.ray", "text": "when?"}, {"sender": "ann.lee", "text": "at two"}]
    mails = [{"body": "all good here", "to": ["cid.moe"]}, {"body": "See you", "to": ["bob.ray"]}]
    goal = {"mails/+": mails, "chats/c1/posts": posts, "events/e1/place": "room 4", "files/f1/blocks": "plan"}
    made = {
        "mails/+": [{"body": "ALL good  here", "to": ["cid.moe"]}, {"body": "see you", "to": ["bob.ray"]}],
        "chats/c1/posts": [posts[0], {"sender": "ann.lee", "text": "At two "}],
        "events/e1/place": "Room 4",
        "files/f1/blocks": "Plan",
    }
    assert unmet(DESK, goal, made) == ["files/f1/blocks"]
    assert unmet(DESK, goal, {**made, "mails/+": made["mails/+"][::-1]}) == [
        "files/f1/blocks"
    ]  # written in any order
    assert unmet(DESK, goal, {**made, "mails/+": made["mails/+"][:1]}) == ["mails/+", "files/f1/blocks"]
    assert unmet(DESK, goal, {**made, "chats/c1/posts": posts[::-1]}) == ["chats/c1/posts", "files/f1/blocks"]
    twice = [{**mails[0], "body": "all goodhere"}, mails[1]]
    assert unmet(DESK, goal, {**made, "mails/+": twice}) == ["mails/+", "files/f1/blocks"]
