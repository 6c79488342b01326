"""Mean tokens and seconds of each agent version in each family, as a fold over the pool.

Like what policies learn, the means up to a sequence number are a function of the pool, bit for bit. A mean counts
about the last ``WINDOW`` calls, because prompts and load change. It starts at a prior with the weight of ``PRIOR``
calls: for tokens the mean of the family over all versions, because they read the same prompts; for seconds the mean
of the version over all families. Both start at the mean over everything, and that at ``FIRST``.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from time import time
from typing import NamedTuple

from upturn.pool import Pool, Scope
from upturn.pool.serving import Consumed, RouterSnapshot, consumption_after, load_router, save_router
from upturn.records import fields_json, from_fields, record

FOLD = 2
"""Incremented when the same records give other means; older snapshots are then not used."""
WINDOW = 200
PRIOR = 2.0
MAX_EXPECTED = 10_000
"""Computed expectations in memory; families may be any that clients name."""


@record
class Mean:
    """A mean of numbers, of which later ones count more."""

    count: int = 0
    """At most ``WINDOW``."""
    value: float = 0.0

    def plus(self, number: float) -> "Mean":
        """Returns the mean with one more number."""
        count = min(self.count + 1, WINDOW)
        return Mean(count, self.value + (number - self.value) / count)

    def from_prior(self, prior: float) -> float:
        """Returns the mean with ``prior`` as further ``PRIOR`` numbers."""
        return (self.count * self.value + PRIOR * prior) / (self.count + PRIOR)


@record
class Means:
    """The means of one version, family or both."""

    input: Mean = Mean()
    cached: Mean = Mean()
    output: Mean = Mean()
    seconds: Mean = Mean()
    cache_write: Mean = Mean()
    cache_write_1h: Mean = Mean()

    def plus(self, used: Consumed) -> "Means":
        """Returns the means with one more call or task; unknown tokens change no mean."""
        seconds = self.seconds.plus(used.seconds)
        if not used.has_tokens:
            return replace(self, seconds=seconds)
        return Means(
            self.input.plus(used.input_tokens),
            self.cached.plus(used.cached_tokens),
            self.output.plus(used.output_tokens),
            seconds,
            self.cache_write.plus(used.cache_write_tokens),
            self.cache_write_1h.plus(used.cache_write_1h_tokens),
        )


class Expected(NamedTuple):
    """What a call or task will probably use."""

    input_tokens: float
    """Cached ones included."""
    cached_tokens: float
    output_tokens: float
    seconds: float = 0.0
    cache_write_tokens: float = 0.0
    """Of ``input_tokens``."""
    cache_write_1h_tokens: float = 0.0
    """Of ``cache_write_tokens``."""


FIRST = Expected(500.0, 0.0, 200.0, 2.0)
"""What is expected before anything was used: a short question with a short answer."""


@record
class ConsumptionState:
    """All means."""

    cells: Mapping[str, Mapping[str, Means]]
    """By family and version."""
    families: Mapping[str, Means]
    versions: Mapping[str, Means]
    overall: Means


class Consumption:
    """What the calls and tasks of a pool used. For one thread."""

    def __init__(self, pool: Pool, *, tenant: Scope, clock: Callable[[], float] = time) -> None:
        """``tenant``: whose calls count; ALL_TENANTS for a router that they share."""
        self.sequence = 0
        """Number of the last record that was read; 0 = none."""
        self._pool = pool
        self._tenant = tenant
        self._clock = clock
        self._key = f"consumption-{FOLD}-{tenant}"
        self._clear()

    def _clear(self) -> None:
        self.sequence = 0
        self._cells: dict[str, dict[str, Means]] = {}
        self._families: dict[str, Means] = {}
        self._versions: dict[str, Means] = {}
        self._overall = Means()
        self._expected: dict[tuple[str, str], Expected] = {}

    def follow(self, until: int) -> None:
        """Counts the records up to this number, and no later ones, from the latest usable snapshot on."""
        if until < self.sequence:
            self._clear()
        if not self.sequence:
            self._load(until)
        for used in consumption_after(self._pool.engine, self.sequence, until, tenant=self._tenant):
            self._add(used)
        self.sequence = max(self.sequence, until)

    def expected(self, family: str, version: str) -> Expected:
        """Returns what the version will probably use for a call or task of the family."""
        known = self._expected.get((family, version))
        if known is None:
            if len(self._expected) >= MAX_EXPECTED:
                self._expected.clear()
            known = self._expected[family, version] = self._compute(family, version)
        return known

    def _compute(self, family: str, version: str) -> Expected:
        cell = self._cells.get(family, {}).get(version, _NOTHING)
        of_family, of_version = self._families.get(family, _NOTHING), self._versions.get(version, _NOTHING)
        overall = self._overall
        return Expected(
            cell.input.from_prior(of_family.input.from_prior(overall.input.from_prior(FIRST.input_tokens))),
            cell.cached.from_prior(of_family.cached.from_prior(overall.cached.from_prior(FIRST.cached_tokens))),
            cell.output.from_prior(of_family.output.from_prior(overall.output.from_prior(FIRST.output_tokens))),
            cell.seconds.from_prior(of_version.seconds.from_prior(overall.seconds.from_prior(FIRST.seconds))),
            cell.cache_write.from_prior(of_family.cache_write.from_prior(overall.cache_write.from_prior(0.0))),
            cell.cache_write_1h.from_prior(
                of_family.cache_write_1h.from_prior(overall.cache_write_1h.from_prior(0.0))
            ),
        )

    def count(self, family: str, version: str) -> int:
        """Returns the number of calls and tasks in the means, at most ``WINDOW``."""
        return self._cells.get(family, {}).get(version, _NOTHING).seconds.count

    def snapshot(self) -> RouterSnapshot:
        """Returns all means, and the number of the last record in them."""
        return RouterSnapshot(self.state(), self.sequence)

    def save(self, snapshot: RouterSnapshot) -> None:
        """Stores a snapshot in the pool, to save time at the next start; from any thread.

        The pool must be open for writing."""
        save_router(self._pool, self._key, snapshot, now=self._clock())

    def state(self) -> str:
        """Returns all means as JSON text."""
        return fields_json(ConsumptionState(self._cells, self._families, self._versions, self._overall))

    def _load(self, until: int) -> None:
        snapshot = load_router(self._pool.engine, self._key)
        if snapshot is None or snapshot.sequence > until:
            return
        state = from_fields(ConsumptionState, snapshot.state)
        self._cells = {family: dict(cells) for family, cells in state.cells.items()}
        self._families, self._versions = dict(state.families), dict(state.versions)
        self._overall, self.sequence = state.overall, snapshot.sequence
        self._expected.clear()

    def _add(self, used: Consumed) -> None:
        cells = self._cells.setdefault(used.family, {})
        cells[used.version] = cells.get(used.version, _NOTHING).plus(used)
        self._families[used.family] = self._families.get(used.family, _NOTHING).plus(used)
        self._versions[used.version] = self._versions.get(used.version, _NOTHING).plus(used)
        self._overall = self._overall.plus(used)
        self._expected.clear()


_NOTHING = Means()
