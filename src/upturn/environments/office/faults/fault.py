"""Planned faults of the apps: which calls they hit and how long they last. Plain data and pure functions.

A plan is part of a task, like its seed: faults depend on the plan and the calls alone, so a replay has the same
faults. Plans can be added (``plan + plan``); ``fault_layer`` applies them.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import field
from typing import Literal, TypeAlias

from upturn.errors import WorldError
from upturn.records import record

FaultKind: TypeAlias = Literal[
    "rate_limited", "unavailable", "timeout", "lost_answer", "partial_write", "stale_read", "no_permission", "moved"
]
"""Kinds of faults:

- ``rate_limited`` (429): the app refuses every call for ``seconds``; the error names the time;
- ``unavailable`` (503): the call is refused;
- ``timeout`` (504): no answer, and nothing was done;
- ``lost_answer`` (504): no answer, but it was done; the error is that of ``timeout``;
- ``partial_write`` (207): all but the last of several items were written;
- ``stale_read``: for ``seconds`` after a write, reads show the earlier content and its age;
- ``no_permission`` (403): refused until the user, when asked, gets the permission from ``person``; refused for
  good if that person denies it;
- ``moved`` (301): before the first call that names the file it moves to another id and path.
"""
RANDOM_KINDS: tuple[FaultKind, ...] = ("rate_limited", "unavailable", "timeout", "lost_answer", "partial_write")
"""Kinds that may occur at random: they need only a call."""
_MAX_RATE = 0.5
"""Limit on the sum of all rates: half of the calls succeed, so that retrying completes every task."""


@record
class Fault:
    """One fault, and the calls it hits."""

    kind: FaultKind
    call: str = ""
    """``outlook.send``, or an app; empty = any app."""
    nth: int = 1
    """The matching call that it hits, from 1; for ``stale_read`` the write in the app that it follows. Unused by
    ``no_permission`` and ``moved``, which exist from the start."""
    times: int = 1
    """Number of matching calls in a row that it hits; only for ``unavailable`` and ``timeout``."""
    seconds: float = 30.0
    """Simulated duration of the fault, or time until a call is given up."""
    person: str = ""
    """The person who decides on the permission."""
    is_lasting: bool = False
    """Whether that person denies it."""
    file: str = ""
    """Id of the file that moves."""
    to_id: str = ""
    to_path: str = ""

    def __post_init__(self) -> None:
        """Raises WorldError for settings that the kind does not use, or lacks."""
        required = {"no_permission": ("person",), "moved": ("file", "to_id", "to_path")}.get(self.kind, ())
        for name in ("person", "file", "to_id", "to_path"):
            if bool(getattr(self, name)) != (name in required):
                needs = "needs" if name in required else "does not use"
                raise WorldError(f"a fault of kind {self.kind!r} {needs} {name}, got {getattr(self, name)!r}")
        if self.is_lasting and self.kind != "no_permission":
            raise WorldError(f"only no_permission can be lasting, got {self.kind!r}")
        if self.times != 1 and self.kind not in ("unavailable", "timeout"):
            raise WorldError(f"times is for unavailable and timeout, got {self.times!r} for {self.kind!r}")
        if self.nth < 1 or self.times < 1 or self.seconds <= 0:
            raise WorldError(
                f"nth and times are at least 1 and seconds more than 0, got {self.nth!r}, {self.times!r}, "
                f"{self.seconds!r}"
            )

    @property
    def is_recoverable(self) -> bool:
        """Whether the intended effect can still be achieved."""
        return not self.is_lasting


@record
class RateLimit:
    """The most calls that an app accepts in each window of simulated time; windows start at 0."""

    app: str
    calls: int
    seconds: float = 60.0

    def __post_init__(self) -> None:
        """Raises WorldError for a window without calls or without length."""
        if self.calls < 1 or self.seconds <= 0:
            raise WorldError(f"a rate limit lets at least 1 call through in a time of more than 0 s, got {self!r}")


@record
class FaultPlan:
    """All faults of a task. A call that an earlier fault hits does not reach the later ones."""

    faults: tuple[Fault, ...] = ()
    limits: tuple[RateLimit, ...] = ()
    rates: Mapping[FaultKind, float] = field(default_factory=dict)
    """Probability by kind that a fault hits a call that no other fault hit."""
    seed: int = 0
    """Seed of the random faults."""

    def __post_init__(self) -> None:
        """Raises WorldError for rates of kinds that cannot be random, and for a sum that is too large."""
        for kind, rate in self.rates.items():
            if kind not in RANDOM_KINDS or rate < 0:
                raise WorldError(f"rates are 0 or more and of {', '.join(RANDOM_KINDS)}; got {kind!r}: {rate!r}")
        if sum(self.rates.values()) > _MAX_RATE:
            raise WorldError(f"all rates together are at most {_MAX_RATE}, got {dict(self.rates)!r}")

    def __add__(self, other: "FaultPlan") -> "FaultPlan":
        """Both plans, this one's faults first. Raises WorldError where both have rates and their seeds differ."""
        if self.rates and other.rates and self.seed != other.seed:
            raise WorldError(f"plans with rates need one seed, got {self.seed!r} and {other.seed!r}")
        rates = {kind: self.rates.get(kind, 0) + other.rates.get(kind, 0) for kind in {**self.rates, **other.rates}}
        return FaultPlan(
            self.faults + other.faults, self.limits + other.limits, rates, self.seed if self.rates else other.seed
        )

    def __bool__(self) -> bool:
        """Whether the plan contains any fault."""
        return bool(self.faults or self.limits or self.rates)

    def random_kind(self, call: int) -> FaultKind | None:
        """The kind drawn for the call of this number; None = no fault."""
        if not self.rates:
            return None
        text = f"{self.seed}/fault/{call}"
        number = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=7).digest()) / 2**56
        for kind in RANDOM_KINDS:
            number -= self.rates.get(kind, 0.0)
            if number < 0:
                return kind
        return None


NO_FAULTS = FaultPlan()
