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
