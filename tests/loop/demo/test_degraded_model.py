"""How much noise costs 20 points: found in a few trials, whatever the curve of damage looks like."""

import math
from collections.abc import Callable, Sequence

import pytest

from upturn.loop.demo.degraded_model import (
    FIRST_SIZE,
    GROWTH,
    MAX_TRIALS,
    TARGET_DROP,
    TOLERANCE,
    direction_for,
    drop_of,
    size_for,
)


class Damage:
    """Counts the trials of a curve of damage."""

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
        lambda size: 0.08 * size,  # robust weights: the first guesses cost next to nothing
        lambda size: 10 * size,  # fragile weights: the first guess destroys them
        lambda size: 0.9 / (1 + math.exp(-12 * (size - 0.7))),  # a cliff
    ],
)  # fmt: skip
def test_size_costs_what_it_should(curve: Callable[[float], float]) -> None:
    damage = Damage(curve)
    found = size_for(damage)
    assert abs(curve(found) - TARGET_DROP) <= TOLERANCE
    assert damage.tried[-1] == found  # the trial that came close enough is the last
    assert len(damage.tried) < MAX_TRIALS


@pytest.mark.parametrize("power", [1.8, 2.0, 2.4])
@pytest.mark.parametrize("first", [0.14, 0.17, 0.3])
def test_second_trial_is_near_where_drops_grow_about_with_the_square(power: float, first: float) -> None:
    damage = Damage(lambda size: first * (size / FIRST_SIZE) ** power)
    size_for(damage)
    assert len(damage.tried) == 2


def test_closest_trial_is_kept_where_none_comes_close_enough() -> None:
    step = Damage(lambda size: 0.1 if size < 0.4 else 0.35)
    found = size_for(step)
    assert len(step.tried) == MAX_TRIALS
    assert found < 0.4  # a drop of .10 is closer to .215 than one of .35
    assert min(abs(size - 0.4) for size in step.tried) < 0.01  # it closed in on the step


def test_noise_that_never_hurts_ends_the_search() -> None:
    harmless = Damage(lambda _size: 0.0)
    assert size_for(harmless) == FIRST_SIZE
    assert harmless.tried == pytest.approx([FIRST_SIZE * GROWTH**trial for trial in range(MAX_TRIALS)])


def test_noise_that_helps_is_not_mistaken_for_damage() -> None:
    helping = Damage(lambda size: -0.2 if size < 2 else 0.2)
    assert size_for(helping) == pytest.approx(FIRST_SIZE * GROWTH**3)  # the first of 2 and more


@pytest.mark.parametrize(
    ("drops", "chosen", "tried"),
    [
        ((0.2, 0.3, 0.3, 0.3), 0, 1),  # the first will do
        ((0.1, 0.16, 0.3, 0.3), 1, 2),  # the first that costs enough, not the worst
        ((0.1, 0.14, -0.1, 0.12), 1, 4),  # none costs enough: the one that costs most
    ],
)
def test_direction_is_the_first_that_fresh_tasks_feel(drops: tuple[float, ...], chosen: int, tried: int) -> None:
    asked = Damage(lambda direction: drops[int(direction)])
    assert direction_for(asked) == chosen
    assert asked.tried == list(range(tried))


@pytest.mark.parametrize(
    ("left", "lost", "attempted"),
    [
        ("s" * 30, 0.0, 10),  # nothing is lost at first: that is too far from the target to go on
        ("." * 10 + "s" * 20, 1.0, 10),
        ("." * 3 + "s" * 27, 0.1, 30),  # .30 at first, and all of it in the end
        ("s" + "." * 2 + "s" * 17 + "." * 10, 0.4, 30),
    ],
)
def test_trial_ends_after_a_first_look_that_is_far_off(left: str, lost: float, attempted: int) -> None:
    tried: list[int] = []

    def attempt(tasks: Sequence[int]) -> list[float]:
        tried.extend(tasks)
        return [float(left[task] == "s") for task in tasks]

    assert drop_of(attempt, range(30), [1.0] * 30) == pytest.approx(lost)
    assert tried == list(range(attempted))
