"""Planned faults of the apps: which calls they hit and how long they last. Plain data and pure functions.

A plan is part of a task, like its seed: faults follow from the plan and the calls alone, so a replay meets the same
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
"""What can go wrong:

- ``rate_limited`` (429): the app refuses every call for ``seconds``, and says so;
- ``unavailable`` (503): the call is refused;
- ``timeout`` (504): no answer, and nothing was done;
- ``lost_answer`` (504): no answer, and it was done; the agent is told the same as for ``timeout``;
- ``partial_write`` (207): all but the last of several things were done;
- ``stale_read``: for ``seconds`` after a write, readings show what was there before it, and how old that is;
- ``no_permission`` (403): refused until the user, being asked, has got the permission from ``person``; refused for
  good where that person denies it;
- ``moved`` (301): the first call that names the file finds it moved to another id and path.
"""
RATED: tuple[FaultKind, ...] = ("rate_limited", "unavailable", "timeout", "lost_answer", "partial_write")
"""Kinds that may occur at random, since they need no more than a call."""
_CAP = 0.5
"""Of all rates together: half of the calls get through, so that patience gets everything done."""


@record
class Fault:
    """One fault, and the calls it hits."""

    kind: FaultKind
    call: str = ""
    """``outlook.send``, or an app; empty = any app."""
    nth: int = 1
    """It comes with this one of the fitting calls that reach it, from 1; for ``stale_read`` after this write in the
    app. Not for ``no_permission`` and ``moved``, which are there from the beginning."""
    times: int = 1
    """So many fitting calls in a row; only for ``unavailable`` and ``timeout``."""
    seconds: float = 30.0
    """Simulated: how long it lasts, or until a call is given up."""
    person: str = ""
    """Who decides on a permission."""
    is_lasting: bool = False
    """Whether that person denies it."""
    file: str = ""
    """Id of the file that moves."""
    to_id: str = ""
    to_path: str = ""

    def __post_init__(self) -> None:
        """Raises WorldError for settings that the kind has no use for, or lacks."""
        wanted = {"no_permission": ("person",), "moved": ("file", "to_id", "to_path")}.get(self.kind, ())
        for name in ("person", "file", "to_id", "to_path"):
            if bool(getattr(self, name)) != (name in wanted):
                needs = "needs" if name in wanted else "has no use for"
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
        """Whether what was meant can still be done."""
        return not self.is_lasting


@record
class RateLimit:
    """An app takes at most so many calls in each window of simulated time; windows follow each other from 0 on."""

    app: str
    calls: int
    seconds: float = 60.0

    def __post_init__(self) -> None:
        """Raises WorldError for a window that lets nothing through, or has no length."""
        if self.calls < 1 or self.seconds <= 0:
            raise WorldError(f"a rate limit lets at least 1 call through in a time of more than 0 s, got {self!r}")


@record
class FaultPlan:
    """All faults of a task. Earlier ones come first: what they hit does not reach those behind them."""

    faults: tuple[Fault, ...] = ()
    limits: tuple[RateLimit, ...] = ()
    rates: Mapping[FaultKind, float] = field(default_factory=dict)
    """Chance with which a call that nothing else hit is hit by a fault of this kind."""
    seed: int = 0
    """Of that chance."""

    def __post_init__(self) -> None:
        """Raises WorldError for rates of kinds that cannot come by chance, and for too much of them."""
        for kind, rate in self.rates.items():
            if kind not in RATED or rate < 0:
                raise WorldError(f"rates are 0 or more and of {', '.join(RATED)}; got {kind!r}: {rate!r}")
        if sum(self.rates.values()) > _CAP:
            raise WorldError(f"all rates together are at most {_CAP}, got {dict(self.rates)!r}")

    def __add__(self, other: "FaultPlan") -> "FaultPlan":
        """Both: this one's faults before the other's. Raises WorldError where both draw with seeds of their own."""
        if self.rates and other.rates and self.seed != other.seed:
            raise WorldError(f"plans with rates need one seed, got {self.seed!r} and {other.seed!r}")
        rates = {kind: self.rates.get(kind, 0) + other.rates.get(kind, 0) for kind in {**self.rates, **other.rates}}
        return FaultPlan(
            self.faults + other.faults, self.limits + other.limits, rates, self.seed if self.rates else other.seed
        )

    def __bool__(self) -> bool:
        """Whether anything can go wrong."""
        return bool(self.faults or self.limits or self.rates)

    def by_chance(self, call: int) -> FaultKind | None:
        """The kind that is drawn for the call of this number, whatever it is; None = nothing."""
        if not self.rates:
            return None
        text = f"{self.seed}/fault/{call}"
        drawn = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=7).digest()) / 2**56
        for kind in RATED:
            drawn -= self.rates.get(kind, 0.0)
            if drawn < 0:
                return kind
        return None


NO_FAULTS = FaultPlan()
