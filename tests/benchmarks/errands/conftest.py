"""A small workspace with known items."""

from collections.abc import Callable

import pytest

from benchmarks.errands.environment import apply
from benchmarks.errands.operation import Effect, OperationError
from benchmarks.errands.workspace import Event, Mail, Sheet, Workspace
from upturn.models import read_call
from upturn.records import Action

Apply = Callable[[str | Action], Effect]
Refusal = Callable[[str | Action], OperationError]


@pytest.fixture
def office() -> Workspace:
    mails = (
        Mail("m11", "inbox", "ann", ("me",), "budget", "it is twelve"),
        Mail("m12", "inbox", "bob", ("me",), "travel plan", "by train", is_read=True),
        Mail("m13", "archive", "ann", ("me", "bob"), "Travel", "by bus", is_read=True),
    )
    events = (
        Event("e21", "review", "mon", 9, 11, ("ann", "bob")),
        Event("e22", "lunch", "mon", 12, 13),
        Event("e23", "call", "tue", 15, 16, ("cid",)),
    )
    costs = Sheet("costs", {"A1": "item", "B1": "amount", "A2": "rent", "B2": "40", "A3": "food", "B3": "25"})
    return Workspace(
        {mail.id: mail for mail in mails},
        {event.id: event for event in events},
        {"costs": costs},
        ("ann", "bob", "cid"),
    )


def _parse(call: str | Action) -> Action:
    action = read_call(call) if isinstance(call, str) else call
    assert action is not None, call
    return action


@pytest.fixture
def apply_call(office: Workspace) -> Apply:
    """The effect of a call on the small office."""
    return lambda call: apply(office, _parse(call))


@pytest.fixture
def refusal(office: Workspace) -> Refusal:
    """The error of a refused call."""

    def refuse(call: str | Action) -> OperationError:
        with pytest.raises(OperationError) as error:
            apply(office, _parse(call))
        return error.value

    return refuse
