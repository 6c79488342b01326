"""Instructions of tasks: briefing, date and word choices."""

from random import Random

import pytest

from upturn.environments.office.instruction import briefing, polite_request
from upturn.environments.office.state import Table, Workspace
from upturn.environments.office.state.person import Person
from upturn.environments.office.tasks import FAMILIES, compose, make_task


def test_the_briefing_names_the_owner_and_the_date() -> None:
    people = Table({"ann.lee": Person("ann.lee", "Ann Lee")})
    message = "you work for ann.lee (Ann Lee, ann.lee@contoso.example). it is monday, 2026-03-02 09:00."
    assert briefing(Workspace("ann.lee", "2026-03-02 09:00", people=people)) == message


@pytest.mark.parametrize("family", FAMILIES)
def test_every_task_starts_with_the_briefing(family: str) -> None:
    task = make_task(family, 3)
    first, _, rest = task.instruction.partition("\n")
    assert first == briefing(compose(task).workspace)
    assert rest


def phrasings(request: str) -> set[str]:
    """Returns every phrasing of the request."""
    return {polite_request(Random(seed), request) for seed in range(300)}


def test_please_comes_before_imperatives_only_and_once() -> None:
    assert "please move it, thanks" in phrasings("move it")
    assert not any(item.startswith("please") for item in phrasings("the mail is to be moved"))
    assert all(item.count("please") == 1 for item in phrasings("please move it"))
    assert all(item.count("please") <= 1 for item in phrasings("move it"))
    assert "the mail is to be moved, please" in phrasings("the mail is to be moved")


def test_questions_get_no_closing_phrase() -> None:
    assert all(item.endswith("where is it?") for item in phrasings("where is it?"))
