"""The state of a fault plan during a task: counted calls, blocked apps, faults that occurred. Immutable."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from upturn.environments.office.faults.fault import NO_FAULTS, Fault, FaultKind, FaultPlan
from upturn.environments.office.state import Wish, Workspace
from upturn.records import JsonValue


class Written(NamedTuple):
    """The last write in an app."""

    number: int
    """From 1, of the writes in that app."""
    before: Workspace
    at: float
    """Simulated seconds since the task started."""


@dataclass(frozen=True, slots=True)
class Injected:
    """A fault that occurred."""

    kind: FaultKind
    call: str
    """Full name of the operation it hit."""
    before: Workspace
    intended: Workspace
    """The workspace with the call's effect without the fault. For a stale read, the current workspace."""
    is_recoverable: bool = True
    is_answered: bool = False
    """Whether a later call of the app succeeded, or the user reported that the permission is denied."""


@dataclass(frozen=True, slots=True)
class FaultState:
    """A fault plan and its progress."""

    plan: FaultPlan = NO_FAULTS
    calls: int = 0
    """Calls of apps without those refused by ordinary checks."""
    reached: Mapping[int, int] = field(default_factory=dict)
    """By index of a fault in the plan: matching calls that reached it."""
    blocked: Mapping[str, float] = field(default_factory=dict)
    """By app: until when it refuses all calls, in simulated seconds since the task started."""
    windows: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """By app with a rate limit: the window of the last call, and calls in it."""
    written: Mapping[str, Written] = field(default_factory=dict)
    """By app."""
    met: frozenset[int] = frozenset()
    """Indices of faults that affected the agent: missing permissions, moved files, stale reads."""
    decided: frozenset[int] = frozenset()
    """Indices of permissions that were requested."""
    injected: tuple[Injected, ...] = ()
    left: tuple[Wish, ...] = ()
    """What partial writes have left out: who agreed to the whole call agrees to the rest of it."""

    def with_moved_files(self, workspace: Workspace) -> Workspace:
        """The workspace with all files that move at their final paths, as verifiers read it."""
        for index, fault in enumerate(self.plan.faults):
            if fault.kind == "moved" and index not in self.met:
                workspace = move_file(workspace, fault)
        return workspace

    def with_injected(self, injected: Injected) -> "FaultState":
        """The state with one more fault that occurred."""
        return replace(self, injected=(*self.injected, injected))

    def with_answer(self, app: str) -> "FaultState":
        """The state after the app answered a call normally."""
        prefix = f"{app}."
        if all(fault.is_answered or not fault.call.startswith(prefix) for fault in self.injected):
            return self
        faults = (
            replace(fault, is_answered=True) if fault.call.startswith(prefix) else fault for fault in self.injected
        )
        return replace(self, injected=tuple(faults))

    def hash_part(self) -> JsonValue:
        """The part of the state hash for faults, without call counts and times; None = no fault occurred."""
        if not (self.injected or self.met):
            return None
        return [
            [f"{fault.kind} {fault.call}" for fault in self.injected],
            [*sorted(self.met)],
            [*sorted(self.decided)],
        ]


def move_file(workspace: Workspace, fault: Fault) -> Workspace:
    """The workspace with the fault's file at its new id and path."""
    file = workspace.files[fault.file]
    return workspace.without_item(file).with_items(replace(file, id=fault.to_id, path=fault.to_path))
