"""A curriculum: the shares of task pools in each iteration, from the success of earlier rollouts. No torch here.

A pool is a set of tasks of one difficulty, usually a family; several pools form a level. At the start of an
iteration old outcomes are dropped, the best success rate of each level is updated, the schedule advances (by one
level at most), and the shares are fixed; then tasks are sampled and their outcomes added. Shares are computed in
two steps:

1. the policy: all pools equally, by failure rate, or by the level schedule: most from the current level, some from
the next, a share of easier ones;
2. the gate: pools without an expected training signal keep a small share for probing, and the rest of their share
goes to the open pools in proportion. Levels below the current one are never gated: they prevent forgetting.

Which tasks come next is a pure function of (seed, iteration, state)."""

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
"""Is added before shares are rounded down, so that 0.15 of 20 tasks are three."""


class Portion(NamedTuple):
    """Tasks of one pool."""

    pool: str
    first: int
    """Number of the first task in the pool, that is, of tasks sampled before."""
    tasks: int
    """Number of tasks."""


class Curriculum:
    """The schedule and its state. Single use: one run; iterations are started in order."""

    def __init__(
        self,
        levels: Mapping[str, int],
        settings: CurriculumSettings,
        *,
        seed: int,
        weights: Mapping[str, float] | None = None,
    ) -> None:
        """``levels``: by pool. ``weights``: of pools without an estimate yet, for instance from a held-out
        evaluation; None = 1 each.

        Raises TrainingError where the settings do not fit the pools."""
        self.settings = settings
        self.pools = sorted(levels, key=lambda pool: levels[pool])
        """Easier levels first: the order in which shares are rounded."""
        self.levels = sorted(set(levels.values()))
        self.seed = seed
        self._level_of = dict(levels)
        self._level_settings = settings.levels or LevelSettings()
        self._weights = dict(weights or {})
        self._window = SuccessWindow(settings.window, settings.min_trajectories)
        self._best: dict[int, float] = {}
        self._sampled = dict.fromkeys(self.pools, 0)
        self._current = 0
        self._is_final = False
        self._iteration = 0
        self._missing = 0
        self._shares: dict[str, float] = {}
        _check_pools(levels, settings, weights)
        if settings.policy == "levels":
            _check_levels(self.levels, self._level_settings)

    @property
    def level(self) -> int:
        """The current level."""
        return self.levels[self._current]

    @property
    def is_final(self) -> bool:
        """True once the highest level is learned: from then on the final mix is sampled."""
        return self._is_final

    @property
    def shares(self) -> Mapping[str, float]:
        """The share of each pool in the current iteration; they add up to 1."""
        return self._shares

    def start(self, iteration: int) -> None:
        """Fixes the iteration's shares."""
        self._iteration, self._missing = iteration, 0
        self._window.forget(iteration)
        for level in self.levels:
            rate = self._success_rate(level)
            if rate is not None:
                self._best[level] = max(rate, self._best.get(level, 0.0))
        if self.settings.policy == "levels":
            self._advance()
        self._shares = self._apply_gate(self._planned_shares())

    def portions(self, count: int, round_index: int = 0) -> list[Portion]:
        """Returns ``count`` new tasks for the iteration, or for its further round ``round_index``.

        Each pool gets its share of them, rounded up or down, and over many iterations exactly its share: systematic
        sampling, with one random number for all pools.
        """
        (offset,) = np.random.default_rng([self.seed, self._iteration, round_index]).random(1)
        start = float(offset) + _ROUNDING
        reached, total, portions = math.floor(start), 0.0, list[Portion]()
        for pool in self.pools:
            total += self._shares[pool]
            stop = math.floor((1.0 if pool == self.pools[-1] else total) * count + start)
            if stop > reached:
                portions.append(Portion(pool, self._sampled[pool], stop - reached))
                self._sampled[pool] += stop - reached
            reached = stop
        return portions

    def observe(self, groups: Sequence[ScoredGroup], pool_of: Callable[[ScoredGroup], str]) -> None:
        """Adds the outcomes of the iteration's rollouts; trajectories without an evaluation are counted as missing.

        Raises TrainingError for a group of an unknown pool, and where no trajectory has an evaluation.
        """
        members = [(pool_of(group), group.task.id, member) for group in groups for member in group.members]
        has_success = any(member.succeeded is not None for *_, member in members)
        if any(member.is_scorable for *_, member in members) and not has_success:
            raise TrainingError(
                "a curriculum needs to know which trajectories succeeded, and none of them has "
                "ScoredTrajectory.succeeded; set it"
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
        """Returns the metrics of the iteration, including its outcomes. Unknown ones are omitted."""
        metrics = {"curriculum_missing": float(self._missing)}
        if self.settings.policy == "levels":
            metrics |= {"curriculum_level": float(self.level), "curriculum_final": float(self._is_final)}
        if self.settings.gate is not None:
            metrics["curriculum_closed"] = float(len(self._closed_pools()))
        for level in self.levels:
            metrics[f"sampled_level_{level}"] = math.fsum(self._shares[pool] for pool in self._pools_of(level))
            rate = self._success_rate(level)
            if rate is not None:
                best = max(rate, self._best.get(level, 0.0))
                metrics |= {f"success_level_{level}": rate, f"best_level_{level}": best}
                metrics[f"drop_level_{level}"] = best - rate
        return metrics

    def identity(self) -> Mapping[str, object]:
        """Returns the arguments of the curriculum."""
        return {
            "curriculum": self.settings,
            "curriculum pools": {pool: self._level_of[pool] for pool in self.pools},
            "curriculum weights": self._weights,
            "curriculum seed": self.seed,
        }

    def state(self) -> State:
        """Returns the whole state between two iterations."""
        return {
            "current": float(self._current),
            "is_final": float(self._is_final),
            **{f"best.{level}": best for level, best in self._best.items()},
            **{f"given.{pool}": float(count) for pool, count in self._sampled.items()},
            **{f"window.{name}": count for name, count in self._window.state().items()},
        }

    def load_state(self, state: State) -> None:
        """Restores a state from ``state``."""
        numbers = {name: float(value) for name, value in state.items()}
        self._current, self._is_final = int(numbers["current"]), bool(numbers["is_final"])
        self._best = {int(name): best for name, best in _with_prefix("best.", numbers).items()}
        self._sampled = {pool: int(count) for pool, count in _with_prefix("given.", numbers).items()}
        self._window.load_state(_with_prefix("window.", numbers))

    def _advance(self) -> None:
        rate = self._success_rate(self.level)
        if rate is None or rate < self._level_settings.advance_at:
            return
        if self._current + 1 < len(self.levels):
            self._current += 1
        else:
            self._is_final = True

    def _planned_shares(self) -> dict[str, float]:
        if self.settings.policy != "levels":
            return self._split(self.pools, 1.0)
        settings = self._level_settings
        if self._is_final:
            mix = _final_mix(self.levels, settings)
            return self._sum(*(self._split(self._pools_of(level), mix[level]) for level in self.levels))
        easier = self.levels[: self._current]
        following = self.levels[self._current + 1 : self._current + 2]
        easier_share = settings.easier_share if easier else 0.0
        ahead_share = (1 - easier_share) * settings.ahead_share if following else 0.0
        current = (self.level, *filter(self._has_dropped, easier))
        return self._sum(
            self._split(self._pools_of(*easier), easier_share),
            self._split(self._pools_of(*current), 1 - easier_share - ahead_share),
            self._split(self._pools_of(*following), ahead_share),
        )

    def _apply_gate(self, planned: Mapping[str, float]) -> dict[str, float]:
        """Moves the share of closed pools, except the probe share, to open ones; unchanged if all are closed or
        open."""
        gate, closed = self.settings.gate, self._closed_pools()
        closed_share = math.fsum(planned[pool] for pool in closed)
        open_share = math.fsum(planned[pool] for pool in self.pools if pool not in closed)
        if gate is None or closed_share <= gate.probe_share or open_share == 0:
            return dict(planned)
        less, more = gate.probe_share / closed_share, (1 - gate.probe_share) / open_share
        return {pool: share * (less if pool in closed else more) for pool, share in planned.items()}

    def _closed_pools(self) -> set[str]:
        gate = self.settings.gate
        if gate is None:
            return set()
        lowest = self.level if self.settings.policy == "levels" else self.levels[0]
        rates = {pool: self._window.rate(pool) for pool in self.pools if self._level_of[pool] >= lowest}
        return {pool for pool, rate in rates.items() if rate is not None and not gate.low <= rate <= gate.high}

    def _split(self, pools: Sequence[str], share: float) -> dict[str, float]:
        """``share`` distributed over the pools by their weights."""
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

    def _pools_of(self, *levels: int) -> list[str]:
        return [pool for level in levels for pool in self.pools if self._level_of[pool] == level]

    def _success_rate(self, level: int) -> float | None:
        return self._window.mean_rate(self._pools_of(level))

    def _has_dropped(self, level: int) -> bool:
        """True if a level is well below its best rate. As the maximum of noisy estimates the best rate is too high,
        which only costs some extra rollouts."""
        rate = self._success_rate(level)
        return rate is not None and self._best.get(level, 0.0) - rate > self._level_settings.max_drop


def _final_mix(levels: Sequence[int], settings: LevelSettings) -> dict[int, float]:
    """The final share of each level."""
    mix = DEFAULT_MIX if settings.final_mix is None else settings.final_mix
    total = math.fsum(mix[level] for level in levels)
    return {level: mix[level] / total for level in levels}


def _with_prefix(prefix: str, numbers: Mapping[str, float]) -> dict[str, float]:
    return {name.removeprefix(prefix): value for name, value in numbers.items() if name.startswith(prefix)}


def _check_pools(
    levels: Mapping[str, int], settings: CurriculumSettings, weights: Mapping[str, float] | None
) -> None:
    if len(levels) < 2:
        raise TrainingError(
            f"a curriculum needs at least two pools to choose from, got {list(levels)!r}; leave it out"
        )
    if weights is not None and settings.policy == "uniform":
        raise TrainingError(
            f"weights {dict(weights)!r} would do nothing with policy='uniform', where all pools weigh the same; "
            "leave them out, or take policy='failure_weighted'"
        )
    wrong = {pool: weight for pool, weight in (weights or {}).items() if pool not in levels or not weight > 0}
    if wrong:
        raise TrainingError(f"weights must be positive and of existing pools, got {wrong!r}")


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
    easier = 1 - _final_mix(levels, settings)[levels[-1]]
    if easier < settings.easier_share - _ROUNDING:
        raise TrainingError(
            f"levels.final_mix leaves {easier:.3g} to levels below the highest, less than "
            f"levels.easier_share={settings.easier_share!r}; give them as much"
        )
