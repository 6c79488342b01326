"""The search for the noise that costs 20 points takes a few trials, whatever the curve of drops looks like."""

import math
from collections.abc import Callable, Sequence

import pytest

from upturn.loop.demo.damaged_model import (
    FIRST_SIZE,
    GROWTH,
    MAX_TRIALS,
    TARGET_DROP,
    TOLERANCE,
    find_direction,
    find_size,
    measure_drop,
)


class Damage:
    """A curve of drops that stores the sizes tried."""

    def __init__(self, curve: Callable[[float], float]) -> None:
        self._curve = curve
        self.tried: list[float] = []

    def __call__(self, size: float) -> float:
        self.tried.append(size)
        return self._curve(size)


@pytest.mark.parametrize(
    "curve",
    [
        lambda size: size,
        lambda size: 0.08 * size,  # robust weights: the first trials cost almost nothing
        lambda size: 10 * size,  # fragile weights: the first trial destroys them
        lambda size: 0.9 / (1 + math.exp(-12 * (size - 0.7))),  # a cliff
    ],
)  # fmt: skip
def test_size_reaches_the_target_drop(curve: Callable[[float], float]) -> None:
    damage = Damage(curve)
    size = find_size(damage)
    assert abs(curve(size) - TARGET_DROP) <= TOLERANCE
    assert damage.tried[-1] == size  # the search ends with it
    assert len(damage.tried) < MAX_TRIALS


@pytest.mark.parametrize("power", [1.8, 2.0, 2.4])
@pytest.mark.parametrize("first", [0.14, 0.17, 0.3])
def test_second_trial_is_close_for_about_quadratic_drops(power: float, first: float) -> None:
    damage = Damage(lambda size: first * (size / FIRST_SIZE) ** power)
    find_size(damage)
    assert len(damage.tried) == 2


def test_closest_trial_is_used_if_none_is_within_the_tolerance() -> None:
    step = Damage(lambda size: 0.1 if size < 0.4 else 0.35)
    best = find_size(step)
    assert len(step.tried) == MAX_TRIALS
    assert best < 0.4  # a drop of .10 is closer to .215 than one of .35
    assert min(abs(size - 0.4) for size in step.tried) < 0.01  # the search converged to the step


def test_search_ends_for_noise_without_effect() -> None:
    harmless = Damage(lambda _size: 0.0)
    assert find_size(harmless) == FIRST_SIZE
    assert harmless.tried == pytest.approx([FIRST_SIZE * GROWTH**trial for trial in range(MAX_TRIALS)])


def test_noise_that_improves_success_is_not_damage() -> None:
    helping = Damage(lambda size: -0.2 if size < 2 else 0.2)
    assert find_size(helping) == pytest.approx(FIRST_SIZE * GROWTH**3)  # the first of 2 and more


@pytest.mark.parametrize(
    ("drops", "chosen", "tried"),
    [
        ((0.2, 0.3, 0.3, 0.3), 0, 1),  # the first is enough
        ((0.1, 0.16, 0.3, 0.3), 1, 2),  # the first that is enough, not the largest
        ((0.1, 0.14, -0.1, 0.12), 1, 4),  # none is enough: the largest
    ],
)
def test_direction_is_the_first_with_enough_drop_on_fresh_tasks(
    drops: tuple[float, ...], chosen: int, tried: int
) -> None:
    damage = Damage(lambda direction: drops[int(direction)])
    assert find_direction(damage) == chosen
    assert damage.tried == list(range(tried))


@pytest.mark.parametrize(
    ("outcomes", "drop", "count"),
    [
        ("s" * 30, 0.0, 10),  # no drop on the first tasks: too far from the target to continue
        ("." * 10 + "s" * 20, 1.0, 10),
        ("." * 3 + "s" * 27, 0.1, 30),  # .30 on the first tasks, .10 on all
        ("s" + "." * 2 + "s" * 17 + "." * 10, 0.4, 30),
    ],
)
def test_trial_ends_early_if_the_first_tasks_are_far_off(outcomes: str, drop: float, count: int) -> None:
    tried: list[int] = []

    def evaluate(tasks: Sequence[int]) -> list[float]:
        tried.extend(tasks)
        return [float(outcomes[task] == "s") for task in tasks]

    assert measure_drop(evaluate, range(30), [1.0] * 30) == pytest.approx(drop)
    assert tried == list(range(count))
