"""Which tasks are sampled next: shares of the pools, from how earlier rollouts ended. No torch here.

A pool is a set of tasks of one difficulty, as a rule a family; several make a level. Order of an iteration: what
is too old is forgotten, the best of each level is brought up to date, the schedule advances (by one level at most),
and the shares are fixed; then tasks are handed out, attempted, and the outcomes taken in. Shares are made in two
steps:

1. the policy: all pools alike, by what they still fail, or the schedule by levels: most from the current level,
   some from the next, a share of easier ones;
2. the gate: pools that are estimated to teach nothing keep a small share for probing, and what they leave goes to
   the open ones in proportion. Levels below the current one are never gated: they are sampled so as not to be
   forgotten.

Which tasks come next is a pure function of (seed, iteration, state).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from upturn.config import DEFAULT_MIX, CurriculumSettings, LevelSettings
from upturn.errors import TrainingError
from upturn.training.advantage import ScoredGroup
from upturn.training.data.success import SuccessWindow
from upturn.training.stream import State

_ROUNDING = 1e-9
"""Added before shares are rounded down, so that 0.15 of 20 tasks are three."""


class Portion(NamedTuple):
    """Tasks of one pool."""

    pool: str
    first: int
    """How many of the pool's tasks were handed out before: the number of the first of these."""
    tasks: int
    """How many."""


class Curriculum:
    """The schedule and its state. Single use: one run; iterations are begun in order."""

    def __init__(
        self,
        levels: Mapping[str, int],
        settings: CurriculumSettings,
        *,
        seed: int,
        weights: Mapping[str, float] | None = None,
    ) -> None:
        """``levels``: of each pool. ``weights``: of pools without an estimate yet, as from a held-out evaluation;
        None = 1 each.

        Raises TrainingError where the settings do not fit the pools.
        """
        _check(levels, settings, weights)
        self.settings = settings
        self.pools = sorted(levels, key=lambda pool: levels[pool])
        """Easier levels first, so that what is rounded for all of them together is rounded once."""
        self.levels = sorted(set(levels.values()))
        self.seed = seed
        self._level_of = dict(levels)
        self._weights = dict(weights or {})
        self._window = SuccessWindow(settings.window, settings.min_attempts)
        self._best: dict[int, float] = {}
        self._given = dict.fromkeys(self.pools, 0)
        self._current = 0
        self._is_final = False
        self._iteration = 0
        self._missing = 0
        self._shares: dict[str, float] = {}

    @property
    def level(self) -> int:
        """The current one."""
        return self.levels[self._current]

    @property
    def is_final(self) -> bool:
        """True once the highest level is learned: from then on the final mix is sampled."""
        return self._is_final

    @property
    def shares(self) -> Mapping[str, float]:
        """Of each pool in the iteration that was begun last; they add up to 1."""
        return self._shares

    def begin(self, iteration: int) -> None:
        """Fixes the iteration's shares."""
        self._iteration, self._missing = iteration, 0
        self._window.forget(iteration)
        for level in self.levels:
            rate = self._success(level)
            if rate is not None:
                self._best[level] = max(rate, self._best.get(level, 0.0))
        if self.settings.policy == "levels":
            self._advance(_chosen(self.settings))
        self._shares = self._gated(self._planned())

    def portions(self, count: int, attempt: int = 0) -> list[Portion]:
        """``count`` tasks of the iteration, or of its further round ``attempt``, none of them handed out before.

        Each pool gets its share of them, rounded up or down, and over many iterations exactly its share: systematic
        sampling, with one random number for all pools.
        """
        (offset,) = np.random.default_rng([self.seed, self._iteration, attempt]).random(1)
        start = float(offset) + _ROUNDING
        reached, total, found = math.floor(start), 0.0, list[Portion]()
        for pool in self.pools:
            total += self._shares[pool]
            place = math.floor((1.0 if pool == self.pools[-1] else total) * count + start)
            if place > reached:
                found.append(Portion(pool, self._given[pool], place - reached))
                self._given[pool] += place - reached
            reached = place
        return found

    def observe(self, groups: Sequence[ScoredGroup], pool_of: Callable[[ScoredGroup], str]) -> None:
        """Takes in what came of the iteration's practice; attempts without a judgement are counted, not guessed.

        Raises TrainingError for a group of no known pool, and where none of the attempts says whether it succeeded.
        """
        members = [(pool_of(group), group.task.id, member) for group in groups for member in group.members]
        if any(member.is_scorable for *_, member in members) and all(each[2].succeeded is None for each in members):
            raise TrainingError(
                "a curriculum goes by success, but nobody says whether any of the attempts succeeded; set "
                "ScoredTrajectory.succeeded"
            )
        for pool, task, member in members:
            if pool not in self._level_of:
                raise TrainingError(
                    f"task {task!r} belongs to pool {pool!r}, which the curriculum does not have; its pools are "
                    f"{', '.join(map(repr, self.pools))}"
                )
            if member.succeeded is None:
                self._missing += 1
            else:
                self._window.add(self._iteration, pool, is_success=member.succeeded)

    def metrics(self) -> dict[str, float]:
        """Of the iteration, its outcomes included. What is not known of a level is left out.

        ``curriculum_level`` and ``curriculum_final`` (0 or 1) with the schedule by levels; ``curriculum_closed``
        (pools) with a gate; ``curriculum_missing`` (attempts that nobody judged); by level ``practice_level_``
        (share of the tasks), ``success_level_``, ``best_level_`` and ``drop_level_`` (the best minus that).
        """
        found = {"curriculum_missing": float(self._missing)}
        if self.settings.policy == "levels":
            found |= {"curriculum_level": float(self.level), "curriculum_final": float(self._is_final)}
        if self.settings.gate is not None:
            found["curriculum_closed"] = float(len(self._closed()))
        for level in self.levels:
            found[f"practice_level_{level}"] = math.fsum(self._shares[pool] for pool in self._in(level))
            rate = self._success(level)
            if rate is not None:
                best = max(rate, self._best.get(level, 0.0))
                found |= {f"success_level_{level}": rate, f"best_level_{level}": best}
                found[f"drop_level_{level}"] = best - rate
        return found

    def identity(self) -> Mapping[str, object]:
        """What it was made with."""
        return {
            "curriculum": self.settings,
            "curriculum pools": {pool: self._level_of[pool] for pool in self.pools},
            "curriculum weights": self._weights,
            "curriculum seed": self.seed,
        }

    def state(self) -> State:
        """All that is remembered, as it is between two iterations."""
        return {
            "current": float(self._current),
            "is_final": float(self._is_final),
            **{f"best.{level}": best for level, best in self._best.items()},
            **{f"given.{pool}": float(count) for pool, count in self._given.items()},
            **{f"window.{name}": count for name, count in self._window.state().items()},
        }

    def load_state(self, state: State) -> None:
        """Goes back to what ``state`` gave."""
        numbers = {name: float(value) for name, value in state.items()}
        self._current, self._is_final = int(numbers["current"]), bool(numbers["is_final"])
        self._best = {int(name): best for name, best in _under("best.", numbers).items()}
        self._given = {pool: int(count) for pool, count in _under("given.", numbers).items()}
        self._window.load_state(_under("window.", numbers))

    def _advance(self, settings: LevelSettings) -> None:
        rate = self._success(self.level)
        if rate is None or rate < settings.advance_at:
            return
        if self._current + 1 < len(self.levels):
            self._current += 1
        else:
            self._is_final = True

    def _planned(self) -> dict[str, float]:
        if self.settings.policy != "levels":
            return self._split(self.pools, 1.0)
        settings = _chosen(self.settings)
        if self._is_final:
            mix = _mix(self.levels, settings)
            return self._sum(*(self._split(self._in(level), mix[level]) for level in self.levels))
        easier = self.levels[: self._current]
        following = self.levels[self._current + 1 : self._current + 2]
        kept = settings.easier_share if easier else 0.0
        ahead = (1 - kept) * settings.ahead_share if following else 0.0
        current = [
            *self._in(self.level),
            *(pool for level in easier if self._fell(level) for pool in self._in(level)),
        ]
        return self._sum(
            self._split([pool for level in easier for pool in self._in(level)], kept),
            self._split(current, 1 - kept - ahead),
            self._split([pool for level in following for pool in self._in(level)], ahead),
        )

    def _gated(self, planned: Mapping[str, float]) -> dict[str, float]:
        """``planned`` with what closed pools leave given to open ones; as it is where none is closed, or open."""
        gate, closed = self.settings.gate, self._closed()
        held = math.fsum(planned[pool] for pool in closed)
        free = math.fsum(planned[pool] for pool in self.pools if pool not in closed)
        if gate is None or held <= gate.probe_share or free == 0:
            return dict(planned)
        less, more = gate.probe_share / held, (1 - gate.probe_share) / free
        return {pool: share * (less if pool in closed else more) for pool, share in planned.items()}

    def _closed(self) -> set[str]:
        gate = self.settings.gate
        if gate is None:
            return set()
        lowest = self.level if self.settings.policy == "levels" else self.levels[0]
        rates = {pool: self._window.rate(pool) for pool in self.pools if self._level_of[pool] >= lowest}
        return {pool for pool, rate in rates.items() if rate is not None and not gate.low <= rate <= gate.high}

    def _split(self, pools: Sequence[str], share: float) -> dict[str, float]:
        """``share`` over the pools by their weights."""
        weights = {pool: self._weight(pool) for pool in pools}
        total = math.fsum(weights.values())
        return {pool: share * weight / total for pool, weight in weights.items()}

    def _weight(self, pool: str) -> float:
        if self.settings.policy == "uniform":
            return 1.0
        rate = self._window.rate(pool)
        return self._weights.get(pool, 1.0) if rate is None else max(self.settings.floor, 1 - rate)

    def _sum(self, *parts: Mapping[str, float]) -> dict[str, float]:
        return {pool: math.fsum(part.get(pool, 0.0) for part in parts) for pool in self.pools}

    def _in(self, level: int) -> list[str]:
        return [pool for pool in self.pools if self._level_of[pool] == level]

    def _success(self, level: int) -> float | None:
        return self._window.mean_rate(self._in(level))

    def _fell(self, level: int) -> bool:
        """True for a level well below its best, which is the best of noisy estimates: a false alarm costs some
        practice."""
        rate = self._success(level)
        return rate is not None and self._best.get(level, 0.0) - rate > _chosen(self.settings).max_drop


def _chosen(settings: CurriculumSettings) -> LevelSettings:
    return settings.levels or LevelSettings()


def _mix(levels: Sequence[int], settings: LevelSettings) -> dict[int, float]:
    """The final share of each level."""
    mix = DEFAULT_MIX if settings.final_mix is None else settings.final_mix
    total = math.fsum(mix[level] for level in levels)
    return {level: mix[level] / total for level in levels}


def _under(beginning: str, numbers: Mapping[str, float]) -> dict[str, float]:
    return {name.removeprefix(beginning): value for name, value in numbers.items() if name.startswith(beginning)}


def _check(levels: Mapping[str, int], settings: CurriculumSettings, weights: Mapping[str, float] | None) -> None:
    if len(levels) < 2:
        raise TrainingError(
            f"a curriculum needs at least two pools to choose from, got {list(levels)!r}; leave it out"
        )
    if weights is not None and settings.policy == "uniform":
        raise TrainingError(
            f"weights {dict(weights)!r} would do nothing with policy='uniform', where all pools weigh the same; "
            "leave them out, or take policy='failure_weighted'"
        )
    strange = {pool: weight for pool, weight in (weights or {}).items() if pool not in levels or not weight > 0}
    if strange:
        raise TrainingError(f"weights must be positive and of pools that there are, got {strange!r}")
    if settings.policy == "levels":
        _check_levels(sorted(set(levels.values())), _chosen(settings))


def _check_levels(levels: Sequence[int], settings: LevelSettings) -> None:
    if len(levels) < 2:
        raise TrainingError(
            f"policy='levels' does nothing with one level only, {levels[0]!r}; take policy='failure_weighted'"
        )
    named = set(DEFAULT_MIX if settings.final_mix is None else settings.final_mix)
    if settings.final_mix is not None and named != set(levels):
        raise TrainingError(
            f"levels.final_mix is of levels {sorted(named)!r}, the pools have {list(levels)!r}; give each of "
            "these a share, and no other"
        )
    if not named.issuperset(levels):
        raise TrainingError(
            f"there is no usual final mix for levels {list(levels)!r}, only for {sorted(named)!r}; give "
            "each a share in levels.final_mix"
        )
    easier = 1 - _mix(levels, settings)[levels[-1]]
    if easier < settings.easier_share - _ROUNDING:
        raise TrainingError(
            f"levels.final_mix leaves {easier:.3g} to levels below the highest, less than "
            f"levels.easier_share={settings.easier_share!r}; give them as much"
        )
