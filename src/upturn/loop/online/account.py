"""Who pays for a call: what may still be spent, what a call will probably cost, and what it did cost."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from upturn.records import Call


class Left(NamedTuple):
    """What is left of the tightest budget."""

    usd: float
    """Below 0 if calls in flight used more than expected."""
    text: str
    """Whose budget it is, and how much of it is used, for messages."""
    wait_seconds: int
    """Until it is full again."""


class Account(Protocol):
    """The account of one call."""

    def left(self) -> Left | None:
        """Returns what may still be spent; None = there is no budget."""

    def reserve(self, usd: float, /) -> None:
        """Adds to what the call will probably cost."""

    def settle_call(self, call: Call, /) -> None:
        """Replaces the reservation by what the call used."""


class TaskAccounts(Protocol):
    """The accounts of submitted tasks."""

    def refusal(self, tenant: str, key: str, /) -> str:
        """Returns why no task of the tenant and API key may run now; empty = it may."""

    def charge(self, task_ids: Sequence[str], /) -> None:
        """Adds what tasks that have run did cost."""

    def cost_usd(self, task_id: str, tenant: str, /) -> float | None:
        """Returns what a task has cost at the prices of now; None = it has not run, its version has no price, or
        its tokens are unknown."""


class Unlimited:
    """The account of calls that nobody counts."""

    def left(self) -> Left | None:
        """Returns None."""
        return None

    def reserve(self, usd: float, /) -> None:
        """Does nothing."""

    def settle_call(self, call: Call, /) -> None:
        """Does nothing."""


UNLIMITED = Unlimited()
