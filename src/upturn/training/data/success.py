"""How often attempts succeed, by pool, estimated from the latest rollouts. No torch here."""

from collections.abc import Iterable, Mapping


class SuccessWindow:
    """Judged attempts and successes by pool, of the last iterations only.

    Weights change with every iteration, so what is older than the window says nothing: a pool without enough
    attempts in it has no estimate, which is not an estimate of 0.
    """

    def __init__(self, window: int, min_attempts: int) -> None:
        """``window``: iterations. ``min_attempts``: judged ones that an estimate needs."""
        self.window = window
        self.min_attempts = min_attempts
        self._counts: dict[tuple[int, str], tuple[int, int]] = {}
        """By iteration and pool: attempts, successes."""

    def add(self, iteration: int, pool: str, *, is_success: bool) -> None:
        """Takes in one judged attempt."""
        attempts, successes = self._counts.get((iteration, pool), (0, 0))
        self._counts[iteration, pool] = (attempts + 1, successes + is_success)

    def forget(self, iteration: int) -> None:
        """Drops what is too old for ``iteration``, which comes next."""
        self._counts = {key: found for key, found in self._counts.items() if key[0] >= iteration - self.window}

    def rate(self, pool: str) -> float | None:
        """The share of successes; None = too few attempts to say."""
        found = [counts for (_, name), counts in self._counts.items() if name == pool]
        attempts = sum(each for each, _ in found)
        return None if attempts < self.min_attempts else sum(each for _, each in found) / attempts

    def mean_rate(self, pools: Iterable[str]) -> float | None:
        """The mean over pools, each counting the same, so that sampling the hard ones more does not look like
        forgetting; None = one of them has no estimate."""
        rates = [self.rate(pool) for pool in pools]
        known = [rate for rate in rates if rate is not None]
        return sum(known) / len(known) if known and len(known) == len(rates) else None

    def state(self) -> dict[str, float]:
        """All that is remembered."""
        return {
            f"{kind}.{iteration}.{pool}": float(count)
            for (iteration, pool), counts in self._counts.items()
            for kind, count in zip(("attempts", "successes"), counts, strict=True)
        }

    def load_state(self, state: Mapping[str, float]) -> None:
        """Goes back to what ``state`` gave."""
        self._counts = {}
        for name, attempts in state.items():
            kind, iteration, pool = name.split(".", 2)
            if kind == "attempts":
                successes = state[f"successes.{iteration}.{pool}"]
                self._counts[int(iteration), pool] = (int(attempts), int(successes))
