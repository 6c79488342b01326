"""Sizes of the measurements of the pool."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields

from benchmarks.comparison import Bar


@dataclass(frozen=True)
class Sizes:
    """All that results depend on."""

    trajectories: int = 4_000
    """Of 12 turns, for the rate of storing."""
    groups: int = 100
    """Of 8 trajectories with one prompt of 1,000 tokens, for the bytes of a token."""
    rows: int = 1_000_000
    """Trajectories of the large pool."""
    early_rows: int = 100_000
    """Storing slows down by the time for a row around ``rows`` over that around this number."""
    window: int = 20_000
    """Rows around a number of rows."""
    batch: int = 10_000
    """Points of a batch."""
    kills: int = 25
    """How often a writer is killed."""
    restarts: int = 4
    """How often a server is stopped, every second time as by a crash."""
    repetitions: int = 3
    has_bars: bool = True


@dataclass(frozen=True)
class Plan(Sizes):
    """Sizes, and who is told of the progress."""

    log: Callable[[str], None] = field(default=lambda _: None)

    @property
    def sizes(self) -> Sizes:
        """The sizes alone."""
        return Sizes(**{each.name: getattr(self, each.name) for each in fields(Sizes)})

    def bar(self, limit: float, *, is_upper: bool = False) -> Bar | None:
        """The bar; None = the sizes are too small for one."""
        return Bar(limit, is_upper) if self.has_bars else None


QUICK = Plan(
    trajectories=40,
    groups=3,
    rows=2_000,
    early_rows=500,
    window=200,
    batch=50,
    kills=1,
    restarts=2,
    repetitions=1,
    has_bars=False,
)
