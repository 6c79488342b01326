"""The state of a fault plan during a task: counted calls, blocked apps, faults that occurred. Immutable."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from upturn.environments.office.faults.fault import NO_FAULTS, Fault, FaultKind, FaultPlan
from upturn.environments.office.state import Workspace
from upturn.records import JsonValue


class Written(NamedTuple):
    """The last write in an app."""

    number: int
    """From 1, of the writes in that app."""
    before: Workspace
    at: float
    """Simulated seconds since the task began."""


@dataclass(frozen=True, slots=True)
class Injected:
    """A fault that occurred."""

    kind: FaultKind
    call: str
    """Full name of the operation it hit."""
    before: Workspace
    intended: Workspace
    """After what was meant: the call's effect without the fault. For a stale reading, what it did not show."""
    is_recoverable: bool = True
    is_answered: bool = False
    """Whether the app has answered a call as it should since, or the user has said that it will not."""


@dataclass(frozen=True, slots=True)
class FaultState:
    """A fault plan and its progress."""

    plan: FaultPlan = NO_FAULTS
    calls: int = 0
    """Calls of apps that were not refused for what they are."""
    reached: Mapping[int, int] = field(default_factory=dict)
    """By place of a fault in the plan: fitting calls that reached it."""
    blocked: Mapping[str, float] = field(default_factory=dict)
    """By app: until when it refuses everything, in simulated seconds since the task began."""
    windows: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """By app with a rate limit: the window of the last call, and calls in it."""
    written: Mapping[str, Written] = field(default_factory=dict)
    """By app."""
    begun: frozenset[int] = frozenset()
    """Places of faults that the agent has met: permissions that it knows to lack, files that have moved under its
    hands, writes that it was not shown."""
    decided: frozenset[int] = frozenset()
    """Places of permissions that were asked for."""
    injected: tuple[Injected, ...] = ()

    def settled(self, workspace: Workspace) -> Workspace:
        """The workspace with all moved files at their final paths, as verifiers read it."""
        for place, fault in enumerate(self.plan.faults):
            if fault.kind == "moved" and place not in self.begun:
                workspace = move_file(workspace, fault)
        return workspace

    def with_injected(self, injected: Injected) -> "FaultState":
        """The state with one more fault that occurred."""
        return replace(self, injected=(*self.injected, injected))

    def answered(self, app: str) -> "FaultState":
        """The state after the app has answered a call normally."""
        if all(fault.is_answered or not fault.call.startswith(f"{app}.") for fault in self.injected):
            return self
        return replace(
            self,
            injected=tuple(
                replace(fault, is_answered=True) if fault.call.startswith(f"{app}.") else fault
                for fault in self.injected
            ),
        )

    def mark(self) -> JsonValue:
        """What tells states apart that lie ahead differently, without counts of calls and times; None = no fault
        has come."""
        if not (self.injected or self.begun):
            return None
        came: list[JsonValue] = [f"{fault.kind} {fault.call}" for fault in self.injected]
        begun: list[JsonValue] = [*sorted(self.begun)]
        decided: list[JsonValue] = [*sorted(self.decided)]
        return [came, begun, decided]


def move_file(workspace: Workspace, fault: Fault) -> Workspace:
    """The workspace in which the fault's file has its other id and path."""
    file = workspace.files[fault.file]
    return workspace.without_item(file).with_items(replace(file, id=fault.to_id, path=fault.to_path))
