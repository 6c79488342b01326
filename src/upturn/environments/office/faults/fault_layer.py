"""Applies calls of apps under a fault plan: what the agent is answered, and what was done anyway.

Order of checks: ordinary refusals (parameters, rights, agreement), which no fault hides or counts; moved files;
rate limits; the plan's faults in order, of which the first that applies takes the call; random faults. ``user`` has
no faults, but decides on permissions when asked. A fault is no mistake of the agent and costs nothing, unless the
agent was told before and repeats the call.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from upturn.environments.office.apps import Effect, Operation, apply, operation_of, parse_parameters
from upturn.environments.office.faults.fault import Fault, FaultKind
from upturn.environments.office.faults.fault_state import FaultState, Injected, Written, move_file
from upturn.environments.office.state import OperationError, Workspace
from upturn.records import Action

SEVERAL: Mapping[str, str] = {
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
"""Operations that can be done in part, with the parameter that holds the several things."""
_UNSEEN = frozenset({"outlook.read"})
"""Operations that mark a mail as read, but change nothing that a stale read could miss."""


class Outcome(NamedTuple):
    """The result of a call."""

    workspace: Workspace
    state: FaultState
    effect: Effect | None
    """None = it was answered with ``error``."""
    error: OperationError | None = None
    faults: tuple[str, ...] = ()
    """Kinds of faults that hit this call."""
    is_told: bool = False
    """Whether the agent had been told of the fault before this call."""


class _Call(NamedTuple):
    """A call that passes the ordinary checks."""

    workspace: Workspace
    state: FaultState
    operation: Operation[Any]
    action: Action
    effect: Effect

    @property
    def is_write(self) -> bool:
        """Whether it changes anything that a later reading could miss."""
        return not self.operation.is_reading and self.operation.full_name not in _UNSEEN


def apply_with_faults(workspace: Workspace, state: FaultState, action: Action) -> Outcome:
    """The action's result under the fault plan; raises OperationError for ordinary refusals."""
    if not state.plan:
        effect = apply(workspace, action)
        return Outcome(effect.workspace, state, effect)
    for place, fault in enumerate(state.plan.faults):
        if fault.kind == "moved" and _names(action, fault.file):
            return _gone(workspace, state, action, place)
    operation = operation_of(action)
    effect = apply(workspace, action)
    if operation.target == "user":
        return _told_user(_Call(workspace, state, operation, action, effect))
    call = _Call(workspace, replace(state, calls=state.calls + 1), operation, action, effect)
    return _blocked(call) or _planned(call)


def _names(action: Action, id_: str) -> bool:
    """Whether the action is about this id; what is only told to the user is not."""
    if action.target == "user" and action.operation != "preview":
        return False
    texts = (
        part for value in action.parameters.values() for part in (value if isinstance(value, list) else [value])
    )
    word = rf"(?<!\w){re.escape(id_)}(?!\w)"
    return any(isinstance(text, str) and re.search(word, text) for text in texts)


def _gone(workspace: Workspace, state: FaultState, action: Action, place: int) -> Outcome:
    """The refusal of a call that names a moved file."""
    fault, is_told = state.plan.faults[place], place in state.begun
    error = OperationError("moved", f"301 {fault.file} has moved; sharepoint.search finds it")
    if is_told:
        parse_parameters(operation_of(action), action)
        return Outcome(workspace, state, None, error, ("moved",), is_told=True)
    effect, after = apply(workspace, action), move_file(workspace, fault)
    shown = effect.workspace.shown if action.target == "user" else None
    call = action if shown is None else shown
    injected = Injected("moved", call.name, after, move_file(effect.workspace, fault))
    begun = replace(state.with_injected(injected), begun=state.begun | {place})
    return Outcome(replace(after, elapsed=workspace.elapsed + 1), begun, None, error, ("moved",))


def _told_user(call: _Call) -> Outcome:
    """The user gets a permission when asked for one that is missing, or hears that it is denied."""
    state, effect = call.state, call.effect
    faults = state.plan.faults
    open_ = [
        place
        for place in sorted(state.begun - state.decided)
        if faults[place].kind == "no_permission" and call.operation.name == "ask"
    ]
    if not open_:
        return Outcome(effect.workspace, state.answered("user"), effect)
    fault = faults[open_[0]]
    answer = (
        f"{fault.person} denies it" if fault.is_lasting else f"{fault.person} has given the permission, try again"
    )
    decided = replace(state, decided=state.decided | {open_[0]})
    if fault.is_lasting:
        decided = decided.answered(fault.call.split(".", 1)[0])
    return Outcome(effect.workspace, decided, effect._replace(text=answer, costs={}))


def _blocked(call: _Call) -> Outcome | None:
    """The refusal of a call that comes before the time that the agent was told; None = it does not."""
    until = call.state.blocked.get(call.operation.target, 0.0)
    return _too_many(call, until, is_told=True) if call.workspace.elapsed < until else None


def _windowed(call: _Call) -> _Call | Outcome:
    """The call, counted into its app's window; the refusal of one too many."""
    app, now, state = call.operation.target, call.workspace.elapsed, call.state
    for limit in state.plan.limits:
        if limit.app == app:
            window = int(now // limit.seconds)
            last, count = state.windows.get(app, (window, 0))
            count = count + 1 if last == window else 1
            if count > limit.calls:
                return _too_many(call, (window + 1) * limit.seconds, is_told=False)
            call = call._replace(state=replace(state, windows={**state.windows, app: (window, count)}))
    return call


def _too_many(call: _Call, until: float, *, is_told: bool) -> Outcome:
    app, seconds = call.operation.target, until - call.workspace.elapsed
    error = OperationError(
        "rate_limited", f"429 too many calls of {app}; retry after {seconds:g} s", retry_after=seconds
    )
    state = replace(call.state, blocked={**call.state.blocked, app: until})
    return _refused(call._replace(state=state), "rate_limited", error, seconds=0.0, is_told=is_told)


def _refused(
    call: _Call, kind: FaultKind, error: OperationError, *, seconds: float = 1.0, is_told: bool = False
) -> Outcome:
    """Nothing was done, but ``seconds`` have passed. ``is_told``: the same fault occurred before."""
    state = call.state
    if not is_told:
        meant = call.effect.workspace
        state = state.with_injected(Injected(kind, call.operation.full_name, call.workspace, meant))
    later = replace(call.workspace, elapsed=call.workspace.elapsed + seconds)
    return Outcome(later, state, None, error, (kind,), is_told=is_told)


def _planned(call: _Call) -> Outcome:
    """The call through the plan's faults, in their order."""
    counted = _windowed(call)
    if isinstance(counted, Outcome):
        return counted
    call = counted
    for place, fault in enumerate(call.state.plan.faults):
        if fault.call not in ("", call.operation.target, call.operation.full_name):
            continue
        met = _met(call, place)
        if isinstance(met, Outcome):
            return met
        call = met
    kind = call.state.plan.by_chance(call.state.calls)
    if kind is not None and _fits(call, kind):
        return _INJECTED[kind](call, Fault(kind), False)
    return _done(call)


def _met(call: _Call, place: int) -> _Call | Outcome:
    """The outcome of a call that the fault hits; otherwise the call, counted."""
    fault, state = call.state.plan.faults[place], call.state
    if fault.kind == "moved":
        return call
    if fault.kind == "no_permission":
        return call if place in state.decided and not fault.is_lasting else _not_permitted(call, place)
    if fault.kind == "stale_read":
        return _stale(call, place) or call
    if not _fits(call, fault.kind):
        return call
    number = state.reached.get(place, 0) + 1
    call = call._replace(state=replace(state, reached={**state.reached, place: number}))
    if not fault.nth <= number < fault.nth + fault.times:
        return call
    return _INJECTED[fault.kind](call, fault, number > fault.nth)


def _fits(call: _Call, kind: FaultKind) -> bool:
    """Whether the call can be hit by faults of this kind."""
    if kind == "lost_answer":
        return call.is_write
    if kind == "partial_write":
        name = SEVERAL.get(call.operation.full_name)
        several = getattr(parse_parameters(call.operation, call.action), name) if name else None
        return several is not None and len(several) > 1
    return True


def _not_permitted(call: _Call, place: int) -> Outcome:
    fault, state = call.state.plan.faults[place], call.state
    is_told = place in state.begun
    error = OperationError(
        "no_permission", f"403 no permission for {call.operation.full_name}: {fault.person} decides; ask the user"
    )
    call = call._replace(state=replace(state, begun=state.begun | {place}))
    refused = _refused(call, "no_permission", error, is_told=is_told)
    if is_told or fault.is_recoverable:
        return refused
    *before, last = refused.state.injected
    lasting = replace(refused.state, injected=(*before, replace(last, is_recoverable=False)))
    return refused._replace(state=lasting)


def _stale(call: _Call, place: int) -> Outcome | None:
    """What was there before the last write; None where it is too long ago, or would be told the same."""
    fault, state, workspace = call.state.plan.faults[place], call.state, call.workspace
    written = state.written.get(call.operation.target)
    if written is None or not call.operation.is_reading or written.number != fault.nth:
        return None
    if workspace.elapsed - written.at >= fault.seconds:
        return None
    try:
        earlier = apply(replace(written.before, elapsed=workspace.elapsed), call.action)
    except OperationError:
        return None  # what it asks for did not exist then: it is answered as it is now
    if earlier.text == call.effect.text:
        return None
    if place not in state.begun:
        injected = Injected("stale_read", call.operation.full_name, written.before, workspace)
        state = replace(state.with_injected(injected), begun=state.begun | {place})
    text = f"{earlier.text}\n(as it was {workspace.elapsed - written.at + 1:g} s ago)"
    after = call.effect.workspace
    return Outcome(after, state, call.effect._replace(text=text), faults=("stale_read",))


def _limit(call: _Call, fault: Fault, _is_same: bool) -> Outcome:
    return _too_many(call, call.workspace.elapsed + fault.seconds, is_told=False)


def _unavailable(call: _Call, _fault: Fault, is_same: bool) -> Outcome:
    error = OperationError("unavailable", f"503 {call.operation.target} is not available now; try again")
    return _refused(call, "unavailable", error, is_told=is_same)._replace(is_told=False)


def _no_answer(call: _Call, fault: Fault) -> OperationError:
    what = "; it may have been done" if call.is_write else ""
    return OperationError(
        "timed_out", f"504 {call.operation.full_name} gave no answer in {fault.seconds:g} s{what}"
    )


def _timeout(call: _Call, fault: Fault, is_same: bool) -> Outcome:
    refused = _refused(call, "timeout", _no_answer(call, fault), seconds=fault.seconds, is_told=is_same)
    return refused._replace(is_told=False)


def _lost_answer(call: _Call, fault: Fault, _is_same: bool) -> Outcome:
    done = replace(call.effect.workspace, elapsed=call.workspace.elapsed + fault.seconds)
    return _spoiled(call, done, "lost_answer", _no_answer(call, fault))


def _partial_write(call: _Call, _fault: Fault, _is_same: bool) -> Outcome:
    """All but the last one, so that what is left can be done in one way only."""
    name = SEVERAL[call.operation.full_name]
    request = parse_parameters(call.operation, call.action)
    several = getattr(request, name)
    agreed = replace(call.workspace, confirmed=call.effect.workspace.confirmed)
    part = call.operation.run(agreed, request.model_copy(update={name: several[:-1]})).workspace
    done = replace(part, elapsed=call.effect.workspace.elapsed)
    if name == "rows":
        result = f"{len(several) - 1} of {len(several)} rows were written; the last one was not"
    else:
        result = f"done for {', '.join(several[:-1])}; not for {several[-1]}"
    return _spoiled(call, done, "partial_write", OperationError("partial", f"207 {result}"))


def _spoiled(call: _Call, done: Workspace, kind: FaultKind, error: OperationError) -> Outcome:
    """The call was done at least in part, and the answer is an error."""
    injected = Injected(kind, call.operation.full_name, call.workspace, call.effect.workspace)
    state = _with_write(call, done.elapsed).with_injected(injected)
    return Outcome(done, state, None, error, (kind,))


def _done(call: _Call) -> Outcome:
    after = call.effect.workspace
    state = _with_write(call, after.elapsed) if call.is_write else call.state
    return Outcome(after, state.answered(call.operation.target), call.effect)


def _with_write(call: _Call, at: float) -> FaultState:
    app, written = call.operation.target, call.state.written
    number = written[app].number + 1 if app in written else 1
    return replace(call.state, written={**written, app: Written(number, call.workspace, at)})


_INJECTED: Mapping[FaultKind, Callable[[_Call, Fault, bool], Outcome]] = {
    "rate_limited": _limit,
    "unavailable": _unavailable,
    "timeout": _timeout,
    "lost_answer": _lost_answer,
    "partial_write": _partial_write,
}
"""Those that come with one call; the third argument: whether it has come with an earlier call already."""
