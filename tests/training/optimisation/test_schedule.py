"""Learning-rate schedules, step by step."""

import pytest

from upturn.training.optimisation.schedule import IterationSchedule, decay_factor, schedule, warmup_factor


def test_warm_up_rises_linearly_to_one() -> None:
    assert [warmup_factor(step, 3) for step in range(5)] == [0.25, 0.5, 0.75, 1.0, 1.0]
    assert warmup_factor(0, 0) == 1.0


def test_decay_falls_from_one_after_warm_up() -> None:
    assert [decay_factor("linear", step, 6, 2) for step in range(6)] == [1.0, 1.0, 1.0, 0.75, 0.5, 0.25]
    assert decay_factor("cosine", 4, 6, 2) == pytest.approx(0.5)
    assert decay_factor("none", 5, 6, 0) == 1.0


def test_schedule_warms_up_then_decays() -> None:
    factor = schedule("linear", 6, 2)
    assert [factor(step) for step in range(6)] == pytest.approx([1 / 3, 2 / 3, 1.0, 0.75, 0.5, 0.25])


def test_decay_by_iteration_is_the_same_in_all_steps_of_one() -> None:
    """Warm-up of one step; the second iteration has no step."""
    factor, factors = IterationSchedule("linear", 4, 1), []
    for iteration, steps in ((0, (0, 1)), (2, (2, 3)), (3, (4,))):
        factor.iteration = iteration
        factors += [factor(step) for step in steps]
    assert factors == pytest.approx([0.5, 1.0, 0.5, 0.5, 0.25])
    assert IterationSchedule("none", 4, 0)(9) == 1.0
    cosine = IterationSchedule("cosine", 4, 0)
    cosine.iteration = 2
    assert cosine(0) == pytest.approx(0.5)
