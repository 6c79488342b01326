"""Recovery from faults: how many of the recoverable faults of a trajectory left no trace.

A fault is recovered if the intended effect of its call exists exactly once at the end: neither missing nor
duplicated. A call without effect is recovered if its app answered a later call normally. The intended effect is
that of the call, not of the task: an agent that drops a wrong call after a fault has not recovered.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from upturn.environments.office.faults import FaultState, Injected
from upturn.environments.office.goal import by_recipient
from upturn.environments.office.state import Workspace, changes
from upturn.errors import WorldError
from upturn.records import JsonValue, Task, Trajectory


class Recovery(NamedTuple):
    """Counts of one trajectory; sum them over trajectories to get a rate."""

    faults: int
    """Recoverable faults that occurred; a denied permission is not recoverable."""
    recovered: int


def fault_log(initial: Workspace, state: FaultState) -> list[JsonValue]:
    """The faults that occurred, in order, with the affected changes, as JSON for an environment's state."""
    return [_entry(initial, injected) for injected in state.injected]


def has_requested_denied(faults: int, log: JsonValue) -> bool:
    """Whether the fault log has at least ``faults`` denied permissions that the agent requested."""
    denied = [entry for entry in _as_list(log) if isinstance(entry, dict) and not entry.get("is_recoverable")]
    return sum(entry.get("is_answered") is True for entry in denied) >= faults


def recovery(trajectory: Trajectory, task: Task) -> Recovery:
    """The counts from the trajectory's final state; raises WorldError for another task's trajectory."""
    if trajectory.task_id != task.id:
        raise WorldError(f"trajectory {trajectory.id!r} belongs to task {trajectory.task_id!r}, not to {task.id!r}")
    log, changes = trajectory.final_state.get("faults"), trajectory.final_state.get("changes")
    final = changes if isinstance(changes, dict) else {}
    open_ = [entry for entry in _as_list(log) if isinstance(entry, dict) and entry.get("is_recoverable")]
    return Recovery(len(open_), sum(_is_recovered(entry, final) for entry in open_))


def _entry(initial: Workspace, injected: Injected) -> JsonValue:
    before, meant = changes(initial, injected.before), changes(initial, injected.intended)
    were = changes(injected.intended, injected.before)
    stake: dict[str, JsonValue] = {}
    for path in {**before, **meant}:
        if before.get(path) != meant.get(path) or (path in before) != (path in meant):
            stake[path] = _stake(path, before, meant, were.get(path))
    return {
        "kind": injected.kind,
        "call": injected.call,
        "is_recoverable": injected.is_recoverable,
        "is_answered": injected.is_answered,
        "stake": stake,
    }


def _stake(
    path: str, before: Mapping[str, JsonValue], meant: Mapping[str, JsonValue], was: JsonValue
) -> dict[str, JsonValue]:
    """The value before and the intended value; without ``to`` if the intended value is the initial one."""
    if path.endswith(("/+", "/-")):
        return {"from": [], "to": _added(_as_list(before.get(path)), _as_list(meant.get(path)))}
    old = {"from": before.get(path, was)}
    return {**old, "to": meant[path]} if path in meant else old


def _is_recovered(entry: Mapping[str, JsonValue], final: Mapping[str, JsonValue]) -> bool:
    stake = entry.get("stake")
    if not isinstance(stake, dict) or not stake:
        return entry.get("is_answered") is True
    return all(_holds(part, path, final) for path, part in stake.items() if isinstance(part, dict))


def _holds(stake: Mapping[str, JsonValue], path: str, final: Mapping[str, JsonValue]) -> bool:
    if "to" not in stake:
        return path not in final
    was, meant, now = stake.get("from"), stake["to"], final.get(path)
    if path == "mails/+":
        was, meant, now = (by_recipient(_as_list(mails)) for mails in (was, meant, now))
    return path in final and _is_once(was, meant, now)


def _is_once(was: JsonValue, meant: JsonValue, now: JsonValue) -> bool:
    """Whether intended additions exist once and the rest is as intended, recursively in lists and objects."""
    if isinstance(meant, dict) and isinstance(now, dict):
        old = was if isinstance(was, dict) else {}
        return all(
            _is_once(old.get(key), value, now.get(key)) for key, value in meant.items() if old.get(key) != value
        )
    if isinstance(meant, list) and isinstance(now, list):
        old_items = _as_list(was)
        added, lost = _added(old_items, meant), _added(meant, old_items)
        return all(now.count(item) == meant.count(item) for item in added) and all(
            now.count(item) <= meant.count(item) for item in lost
        )
    return meant == now


def _added(before: Sequence[JsonValue], after: Sequence[JsonValue]) -> list[JsonValue]:
    """The multiset difference ``after`` - ``before``."""
    left, added = list(before), []
    for item in after:
        if item in left:
            left.remove(item)
        else:
            added.append(item)
    return added


def _as_list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []
