"""All apps, and the effect of an action on a workspace."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from upturn.environments.action import malformed_text
from upturn.environments.office.apps import calendar, excel, outlook, powerpoint, sharepoint, teams, user, word
from upturn.environments.office.apps.operation import App, Effect, Operation, Parameters, parse_parameters, tool_of
from upturn.environments.office.apps.safety import check_batch, check_traps, unconfirmed_error
from upturn.environments.office.apps.user import Preview, with_message
from upturn.environments.office.state import OperationError, Workspace, fingerprint
from upturn.models import JSON, read_call
from upturn.records import Action, Tool

_MODULES = (outlook, calendar, excel, word, powerpoint, teams, sharepoint, user)
APPS: Mapping[str, App] = {module.APP.target: module.APP for module in _MODULES}


@user.APP.operation(Preview, seconds=5.0)
def _preview(workspace: Workspace, request: Preview) -> Effect:
    """Shows the user what the call would do; ``user.confirm`` returns their decision."""
    action = parse_call(request.call)
    operation = operation_of(action)
    parameters = parse_parameters(operation, action)
    check_batch(parameters, is_shown=True)
    impact = operation.impact(workspace, parameters)
    if impact is None:
        raise OperationError(
            "not_needed", f"{operation.full_name} sends, deletes and shares nothing; it can be done at once"
        )
    shown = with_message(workspace, "preview", request.statement).evolve(
        shown=canonical_action(operation, parameters)
    )
    return Effect(shown, f"shown to the user:\n{impact.preview}", impact.costs)


def operation_of(action: Action) -> Operation[Any]:
    """The action's operation; raises OperationError if there is none."""
    if not action.target and not action.operation:
        raise OperationError(
            "malformed",
            malformed_text(
                action,
                "write one call: target.operation name=value; name=value, each name once; "
                "in values ; = and \\ are written \\; \\= and \\\\",
            ),
        )
    app = APPS.get(action.target)
    if app is None:
        raise OperationError("unknown_target", f"unknown app {action.target[:80]!r}; known: {', '.join(APPS)}")
    operation = app.operations.get(action.operation)
    if operation is None:
        known = ", ".join(app.operations)
        raise OperationError(
            "unknown_operation", f"{action.target} has no {action.operation[:80]!r}; it has: {known}"
        )
    return operation


def canonical_action(operation: Operation[Any], request: Parameters) -> Action:
    """The action in canonical form: without defaults, values converted to their types, people as ids."""
    return Action(operation.target, operation.name, request.model_dump(mode="json", exclude_defaults=True))


def apply(workspace: Workspace, action: Action) -> Effect:
    """The action's effect; raises OperationError for a refused action."""
    operation = operation_of(action)
    request = parse_parameters(operation, action)
    check_batch(request)
    if workspace.persona.traps:
        check_traps(workspace, canonical_action(operation, request))
    impact = operation.impact(workspace, request)
    if impact is not None:
        agreed = fingerprint(canonical_action(operation, request))
        if agreed not in workspace.confirmed:
            raise unconfirmed_error(impact)
        workspace = workspace.evolve(confirmed=workspace.confirmed - {agreed})
    effect = operation.run(workspace, request)
    passed = effect.workspace.evolve(elapsed=effect.workspace.elapsed + operation.seconds)
    return effect._replace(workspace=passed)


@cache
def tools() -> tuple[Tool, ...]:
    """One tool per operation, in the order of the apps; cached, since it takes about 40 ms."""
    return tuple(tool_of(operation) for app in APPS.values() for operation in app.operations.values())


def parse_call(call: str) -> Action:
    """Parses a call written as text or as a JSON object; raises OperationError (``bad_value``) for other texts."""
    parsed = JSON.read_action(call) if call.lstrip().startswith("{") else None
    action = read_call(call) if parsed is None else parsed
    if action is None:
        raise OperationError(
            "bad_value",
            "call must be written as it will be made, such as app.operation name=value, or as a JSON object with "
            f"target_app, operation and an object of parameters; got {call[:60]!r}",
        )
    return action
