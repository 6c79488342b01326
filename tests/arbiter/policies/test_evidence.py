"""Forgetting by discount and by window, against sums over the whole history."""

import numpy as np
import pytest

from tests.arbiter.policies.outcomes import AB, route, task_of, teach
from upturn.arbiter import SlidingThompson
from upturn.arbiter.policies.evidence import Evidence

Outcome = tuple[str, str, float]


@pytest.fixture
def history() -> list[Outcome]:
    generator = np.random.default_rng(0)
    families, versions = generator.integers(2, size=200), generator.integers(3, size=200)
    rewards = generator.random(200)
    return [(f"f{f}", f"v{v}", float(r)) for f, v, r in zip(families, versions, rewards, strict=True)]


def expected(history: list[Outcome], family: str, version: str, weights: list[float]) -> tuple[float, ...]:
    """Weight, mean and squares from the weights of the family's outcomes, latest last."""
    kept = [(v, r) for f, v, r in history if f == family]
    pairs = [(w, r) for w, (v, r) in zip(weights[len(weights) - len(kept) :], kept, strict=True) if v == version]
    total = sum(w for w, _ in pairs)
    mean = sum(w * r for w, r in pairs) / total
    return total, mean, sum(w * (r - mean) ** 2 for w, r in pairs)


@pytest.mark.parametrize(
    ("evidence", "weights"),
    [
        (Evidence(), [1.0] * 200),
        (Evidence(discount=0.9), [0.9 ** (199 - n) for n in range(200)]),
        (Evidence(window=20), [0.0] * 180 + [1.0] * 20),
    ],
)
def test_moments_are_those_of_the_whole_history(
    history: list[Outcome], evidence: Evidence, weights: list[float]
) -> None:
    for outcome in history:
        evidence.add(*outcome)
    for family in ("f0", "f1"):
        for version in ("v0", "v1", "v2"):
            cell = evidence.cell(family, version)
            numbers = (cell.weight, cell.mean, cell.squares)
            assert numbers == pytest.approx(expected(history, family, version, weights), rel=1e-9)


def test_a_version_that_left_the_window_is_new_again() -> None:
    policy = SlidingThompson(window=10, floor=0.01)
    teach(policy, [("mail", "b@1", 0.0)] * 5 + [("mail", "a@1", 1.0)] * 5)
    assert policy.probabilities(task_of(), AB)[1] < 0.05
    teach(policy, [("mail", "a@1", 0.5)] * 10)
    assert (policy.belief("mail", "b@1").alpha, policy.belief("mail", "b@1").beta) == (1.0, 1.0)
    assert policy.probabilities(task_of(), AB)[1] == pytest.approx(0.5, abs=1e-9)


def test_versions_borrow_at_most_two_outcomes_from_other_families() -> None:
    policy = SlidingThompson()
    teach(policy, [("mail", "a@1", 1.0)] * 9)
    belief = policy.belief("sheet", "a@1")
    assert (belief.alpha, belief.beta) == (3.0, 1.0)


def test_a_window_follows_a_change() -> None:
    policy = SlidingThompson(window=60)
    route(policy, {"mail": (0.9, 0.3)}, 300, seed=1)
    after = route(policy, {"mail": (0.1, 0.7)}, 200, seed=2)
    # In 100 simulated runs the second version got at least 84 of these 100 tasks.
    assert after[100:].count(1) >= 75, "P(chance) < 1e-2"


@pytest.mark.parametrize("window", [0, -3])
def test_windows_below_1_are_refused(window: int) -> None:
    with pytest.raises(ValueError, match=f"window must be at least 1 or None .*, got {window}"):
        Evidence(window=window)
