"""Applies calls of apps under a fault plan.

Order of checks: ordinary refusals (parameters, rights, agreement), which no fault hides or counts; moved files;
rate limits; the plan's faults in order, of which the first that applies hits the call; random faults. ``user`` has
no faults, but obtains permissions when asked. A fault is no mistake of the agent and costs nothing, unless an
earlier error reported it and the agent repeats the call.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from upturn.environments.office.apps import (
    Effect,
    Operation,
    apply,
    canonical_action,
    operation_of,
    parse_parameters,
)
from upturn.environments.office.faults.fault import Fault, FaultKind
from upturn.environments.office.faults.fault_state import FaultState, Injected, Written, move_file
from upturn.environments.office.state import OperationError, Wish, Workspace
from upturn.records import Action

LIST_PARAMETERS: Mapping[str, str] = {
    "outlook.move": "ids",
    "outlook.flag": "ids",
    "outlook.mark": "ids",
    "outlook.delete": "ids",
    "outlook.send": "to",
    "calendar.invite": "people",
    "teams.add_members": "people",
    "sharepoint.set_permissions": "people",
    "sharepoint.delete": "ids",
    "excel.write_range": "rows",
}
"""Operations that can be done in part, with the parameter that lists the items."""
_INVISIBLE_WRITES = frozenset({"outlook.read"})
"""Operations that mark a mail as read, but write nothing that a stale read could miss."""


class Outcome(NamedTuple):
    """The result of a call."""

    workspace: Workspace
    state: FaultState
    effect: Effect | None
    """None = the result is ``error``."""
    error: OperationError | None = None
    faults: tuple[str, ...] = ()
    """Kinds of faults that hit this call."""
    was_reported: bool = False
    """Whether an earlier error had reported the fault to the agent."""


class _Call(NamedTuple):
    """A call that passed the ordinary checks."""

    workspace: Workspace
    state: FaultState
    operation: Operation[Any]
    action: Action
    effect: Effect

    @property
    def is_write(self) -> bool:
        """Whether it changes anything that a later read could miss."""
        return not self.operation.is_reading and self.operation.full_name not in _INVISIBLE_WRITES


def apply_with_faults(workspace: Workspace, state: FaultState, action: Action) -> Outcome:
    """The action's result under the fault plan; raises OperationError for ordinary refusals."""
    if not state.plan:
        effect = apply(workspace, action)
        return Outcome(effect.workspace, state, effect)
    for index, fault in enumerate(state.plan.faults):
        if fault.kind == "moved" and _names(action, fault.file):
            return _refuse_moved(workspace, state, action, index)
    operation = operation_of(action)
    effect = _decide(workspace, state, action) if state.left else apply(workspace, action)
    if operation.target == "user":
        return _answer_user(_Call(workspace, state, operation, action, effect))
    call = _Call(workspace, replace(state, calls=state.calls + 1), operation, action, effect)
    return _refuse_blocked(call) or _apply_plan(call)


def _decide(workspace: Workspace, state: FaultState, action: Action) -> Effect:
    """The action's effect where the user also agrees to what partial writes have left out."""
    persona = workspace.persona
    wishes = replace(persona, wishes=(*persona.wishes, *state.left))
    effect = apply(workspace.evolve(persona=wishes), action)
    return effect._replace(workspace=effect.workspace.evolve(persona=persona))


def _names(action: Action, id_: str) -> bool:
    """Whether the action names this id, other than in a message to the user."""
    if action.target == "user" and action.operation != "preview":
        return False
    texts = (
        part for value in action.parameters.values() for part in (value if isinstance(value, list) else [value])
    )
    word = rf"(?<!\w){re.escape(id_)}(?!\w)"
    return any(isinstance(text, str) and re.search(word, text) for text in texts)


def _refuse_moved(workspace: Workspace, state: FaultState, action: Action, index: int) -> Outcome:
    """Refuses a call that names a moved file."""
    fault, was_reported = state.plan.faults[index], index in state.met
    error = OperationError("moved", f"301 {fault.file} has moved; sharepoint.search finds it")
    if was_reported:
        parse_parameters(operation_of(action), action)
        return Outcome(workspace, state, None, error, ("moved",), was_reported=True)
    effect, after = apply(workspace, action), move_file(workspace, fault)
    call = (effect.workspace.shown if action.target == "user" else None) or action
    injected = Injected("moved", call.name, after, move_file(effect.workspace, fault))
    state = replace(state.with_injected(injected), met=state.met | {index})
    return Outcome(replace(after, elapsed=workspace.elapsed + 1), state, None, error, ("moved",))


def _answer_user(call: _Call) -> Outcome:
    """A call to the user, who obtains a missing permission when asked, or reports that it is denied."""
    state, effect = call.state, call.effect
    faults, undecided = state.plan.faults, sorted(state.met - state.decided)
    pending = [
        index for index in undecided if faults[index].kind == "no_permission" and call.operation.name == "ask"
    ]
    if not pending:
        return Outcome(effect.workspace, state.with_answer("user"), effect)
    fault = faults[pending[0]]
    answer = (
        f"{fault.person} denies it" if fault.is_lasting else f"{fault.person} has given the permission, try again"
    )
    decided = replace(state, decided=state.decided | {pending[0]})
    if fault.is_lasting:
        decided = decided.with_answer(fault.call.split(".", 1)[0])
    return Outcome(effect.workspace, decided, effect._replace(text=answer, costs={}))


def _refuse_blocked(call: _Call) -> Outcome | None:
    """Refuses a call before the time that an earlier error named; None = not refused."""
    until = call.state.blocked.get(call.operation.target, 0.0)
    return _refuse_rate(call, until, was_reported=True) if call.workspace.elapsed < until else None


def _count_in_window(call: _Call) -> _Call | Outcome:
    """The call, counted in its app's window, or its refusal if the limit is exceeded."""
    app, now, state = call.operation.target, call.workspace.elapsed, call.state
    for limit in state.plan.limits:
        if limit.app == app:
            window = int(now // limit.seconds)
            last, count = state.windows.get(app, (window, 0))
            count = count + 1 if last == window else 1
            if count > limit.calls:
                return _refuse_rate(call, (window + 1) * limit.seconds, was_reported=False)
            call = call._replace(state=replace(state, windows={**state.windows, app: (window, count)}))
    return call


def _refuse_rate(call: _Call, until: float, *, was_reported: bool) -> Outcome:
    app, seconds = call.operation.target, until - call.workspace.elapsed
    error = OperationError(
        "rate_limited", f"429 too many calls of {app}; retry after {seconds:g} s", retry_after=seconds
    )
    state = replace(call.state, blocked={**call.state.blocked, app: until})
    return _refuse(call._replace(state=state), "rate_limited", error, seconds=0.0, was_reported=was_reported)


def _refuse(
    call: _Call, kind: FaultKind, error: OperationError, *, seconds: float = 1.0, was_reported: bool = False
) -> Outcome:
    """Nothing was done, but ``seconds`` passed. ``was_reported``: the same fault occurred before."""
    state = call.state
    if not was_reported:
        injected = Injected(kind, call.operation.full_name, call.workspace, call.effect.workspace)
        state = state.with_injected(injected)
    later = replace(call.workspace, elapsed=call.workspace.elapsed + seconds)
    return Outcome(later, state, None, error, (kind,), was_reported=was_reported)


def _apply_plan(call: _Call) -> Outcome:
    """Applies the plan's faults to the call, in their order."""
    counted = _count_in_window(call)
    if isinstance(counted, Outcome):
        return counted
    call = counted
    for index, fault in enumerate(call.state.plan.faults):
        if fault.call not in ("", call.operation.target, call.operation.full_name):
            continue
        result = _apply_fault(call, index)
        if isinstance(result, Outcome):
            return result
        call = result
    kind = call.state.plan.random_kind(call.state.calls)
    if kind is not None and _fits(call, kind):
        return _INJECTED[kind](call, Fault(kind), False)
    return _succeed(call)


def _apply_fault(call: _Call, index: int) -> _Call | Outcome:
    """The outcome if the fault hits the call; otherwise the call, counted."""
    fault, state = call.state.plan.faults[index], call.state
    if fault.kind == "moved":
        return call
    if fault.kind == "no_permission":
        return call if index in state.decided and not fault.is_lasting else _refuse_permission(call, index)
    if fault.kind == "stale_read":
        return _stale_read(call, index) or call
    if not _fits(call, fault.kind):
        return call
    number = state.reached.get(index, 0) + 1
    call = call._replace(state=replace(state, reached={**state.reached, index: number}))
    if not fault.nth <= number < fault.nth + fault.times:
        return call
    return _INJECTED[fault.kind](call, fault, number > fault.nth)


def _fits(call: _Call, kind: FaultKind) -> bool:
    """Whether faults of this kind can hit the call."""
    if kind == "lost_answer":
        return call.is_write
    if kind == "partial_write":
        name = LIST_PARAMETERS.get(call.operation.full_name)
        items = getattr(parse_parameters(call.operation, call.action), name) if name else None
        return items is not None and len(items) > 1
    return True


def _refuse_permission(call: _Call, index: int) -> Outcome:
    fault, state = call.state.plan.faults[index], call.state
    was_reported = index in state.met
    error = OperationError(
        "no_permission", f"403 no permission for {call.operation.full_name}: {fault.person} decides; ask the user"
    )
    call = call._replace(state=replace(state, met=state.met | {index}))
    refused = _refuse(call, "no_permission", error, was_reported=was_reported)
    if was_reported or fault.is_recoverable:
        return refused
    *before, last = refused.state.injected
    lasting = replace(refused.state, injected=(*before, replace(last, is_recoverable=False)))
    return refused._replace(state=lasting)


def _stale_read(call: _Call, index: int) -> Outcome | None:
    """The content before the last write; None if that was too long ago, or the text is the same."""
    fault, state, workspace = call.state.plan.faults[index], call.state, call.workspace
    written = state.written.get(call.operation.target)
    if written is None or not call.operation.is_reading or written.number != fault.nth:
        return None
    if workspace.elapsed - written.at >= fault.seconds:
        return None
    try:
        earlier = apply(replace(written.before, elapsed=workspace.elapsed), call.action)
    except OperationError:
        return None  # the item did not exist then, so the read is current
    if earlier.text == call.effect.text:
        return None
    if index not in state.met:
        injected = Injected("stale_read", call.operation.full_name, written.before, workspace)
        state = replace(state.with_injected(injected), met=state.met | {index})
    text = f"{earlier.text}\n(as it was {workspace.elapsed - written.at + 1:g} s ago)"
    after = call.effect.workspace
    return Outcome(after, state, call.effect._replace(text=text), faults=("stale_read",))


def _unavailable(call: _Call, _fault: Fault, is_same: bool) -> Outcome:
    error = OperationError("unavailable", f"503 {call.operation.target} is not available now; try again")
    return _refuse(call, "unavailable", error, was_reported=is_same)._replace(was_reported=False)


def _no_answer(call: _Call, fault: Fault) -> OperationError:
    what = "; it may have been done" if call.is_write else ""
    return OperationError(
        "timed_out", f"504 {call.operation.full_name} gave no answer in {fault.seconds:g} s{what}"
    )


def _timeout(call: _Call, fault: Fault, is_same: bool) -> Outcome:
    refused = _refuse(call, "timeout", _no_answer(call, fault), seconds=fault.seconds, was_reported=is_same)
    return refused._replace(was_reported=False)


def _lost_answer(call: _Call, fault: Fault, _is_same: bool) -> Outcome:
    done = replace(call.effect.workspace, elapsed=call.workspace.elapsed + fault.seconds)
    return _fail_after_write(call, done, "lost_answer", _no_answer(call, fault))


def _partial_write(call: _Call, _fault: Fault, _is_same: bool) -> Outcome:
    """Writes all but the last item, so that exactly one way of completing it is left."""
    name = LIST_PARAMETERS[call.operation.full_name]
    request = parse_parameters(call.operation, call.action)
    items = getattr(request, name)
    agreed = replace(call.workspace, confirmed=call.effect.workspace.confirmed)
    part = call.operation.run(agreed, request.model_copy(update={name: items[:-1]})).workspace
    done = replace(part, elapsed=call.effect.workspace.elapsed)
    if name == "rows":
        result = f"{len(items) - 1} of {len(items)} rows were written; the last one was not"
    else:
        result = f"done for {', '.join(items[:-1])}; not for {items[-1]}"
    exact = canonical_action(call.operation, request).parameters
    left = Wish(call.operation.target, call.operation.name, {**exact, name: [*items[-1:]]}, is_whole=True)
    call = call._replace(state=replace(call.state, left=(*call.state.left, left)))
    return _fail_after_write(call, done, "partial_write", OperationError("partial", f"207 {result}"))


def _fail_after_write(call: _Call, done: Workspace, kind: FaultKind, error: OperationError) -> Outcome:
    """The call was done at least in part, but the result is an error."""
    injected = Injected(kind, call.operation.full_name, call.workspace, call.effect.workspace)
    state = _with_write(call, done.elapsed).with_injected(injected)
    return Outcome(done, state, None, error, (kind,))


def _succeed(call: _Call) -> Outcome:
    after = call.effect.workspace
    state = _with_write(call, after.elapsed) if call.is_write else call.state
    return Outcome(after, state.with_answer(call.operation.target), call.effect)


def _with_write(call: _Call, at: float) -> FaultState:
    app, written = call.operation.target, call.state.written
    number = written[app].number + 1 if app in written else 1
    return replace(call.state, written={**written, app: Written(number, call.workspace, at)})


_INJECTED: Mapping[FaultKind, Callable[[_Call, Fault, bool], Outcome]] = {
    "rate_limited": lambda call, fault, _: _refuse_rate(
        call, call.workspace.elapsed + fault.seconds, was_reported=False
    ),
    "unavailable": _unavailable,
    "timeout": _timeout,
    "lost_answer": _lost_answer,
    "partial_write": _partial_write,
}
"""Faults of single calls; the third argument: whether the fault hit an earlier call already."""
