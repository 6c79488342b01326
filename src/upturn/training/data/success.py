"""Success rates by pool, estimated from recent rollouts. No torch here."""

from collections.abc import Iterable, Mapping


class SuccessWindow:
    """Evaluated trajectories and successes by pool, of the last iterations only.

    Weights change with every iteration, so older trajectories are not counted: a pool with too few trajectories in
    the window has no estimate, which is not an estimate of 0."""

    def __init__(self, window: int, min_trajectories: int) -> None:
        """``window``: iterations. ``min_trajectories``: evaluated ones that an estimate needs."""
        self.window = window
        self.min_trajectories = min_trajectories
        self._counts: dict[tuple[int, str], tuple[int, int]] = {}
        """By iteration and pool: trajectories, successes."""

    def add(self, iteration: int, pool: str, *, is_success: bool) -> None:
        """Adds an evaluated trajectory."""
        trajectories, successes = self._counts.get((iteration, pool), (0, 0))
        self._counts[iteration, pool] = (trajectories + 1, successes + is_success)

    def forget(self, iteration: int) -> None:
        """Drops what is too old for ``iteration``, the next one."""
        self._counts = {key: counts for key, counts in self._counts.items() if key[0] >= iteration - self.window}

    def rate(self, pool: str) -> float | None:
        """Returns the share of successes; None = too few trajectories."""
        counts = [counts for (_, name), counts in self._counts.items() if name == pool]
        trajectories = sum(count for count, _ in counts)
        if trajectories < self.min_trajectories:
            return None
        return sum(successes for _, successes in counts) / trajectories

    def mean_rate(self, pools: Iterable[str]) -> float | None:
        """Returns the unweighted mean over pools, so that sampling hard pools more does not look like forgetting;
        None = a pool has no estimate, or there are no pools."""
        rates = [self.rate(pool) for pool in pools]
        known = [rate for rate in rates if rate is not None]
        return sum(known) / len(known) if known and len(known) == len(rates) else None

    def state(self) -> dict[str, float]:
        """Returns the whole state."""
        return {
            f"{kind}.{iteration}.{pool}": float(count)
            for (iteration, pool), counts in self._counts.items()
            for kind, count in zip(("attempts", "successes"), counts, strict=True)
        }

    def load_state(self, state: Mapping[str, float]) -> None:
        """Restores a state from ``state``."""
        self._counts = {}
        for name, trajectories in state.items():
            kind, iteration, pool = name.split(".", 2)
            if kind == "attempts":
                successes = state[f"successes.{iteration}.{pool}"]
                self._counts[int(iteration), pool] = (int(trajectories), int(successes))
