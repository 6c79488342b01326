"""Whom an action is about: people and groups of the company, and addresses outside."""

from collections.abc import Iterable

from upturn.environments.office.state.operation_error import OperationError
from upturn.environments.office.state.person import is_address, is_outside, person_of
from upturn.environments.office.state.workspace import Workspace


def principals(workspace: Workspace, people: tuple[str, ...]) -> tuple[str, ...]:
    """Ids of people and groups and addresses outside, each once, in order; raises OperationError for nobody,
    and for what is no address."""
    found = tuple(dict.fromkeys(person_of(each) for each in people))
    for each in found:
        if is_outside(each) and not is_address(each):
            raise OperationError(
                "bad_value", f"{each[:60]!r} is no address; these are such as ann.lee@fabrikam.example"
            )
        if not is_outside(each) and each not in workspace.people and each not in workspace.groups:
            raise OperationError("not_found", f"nobody called {each!r}; ids are such as {workspace.owner}")
    return found


def outsiders(workspace: Workspace, people: Iterable[str]) -> tuple[str, ...]:
    """Those of these people who are not of the company, members of groups too, each once, in order."""
    everybody = (member for each in people for member in sorted(workspace.members(each)))
    return tuple(dict.fromkeys(each for each in everybody if is_outside(each)))
