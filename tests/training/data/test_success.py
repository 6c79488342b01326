"""Success rates of recent rollouts, and no estimate from too few."""

from upturn.training.data.success import SuccessWindow


def _filled() -> SuccessWindow:
    """Pool a: 1 of 2 in iteration 0 and 3 of 3 in iteration 2; pool b: 0 of 1 in iteration 1."""
    window = SuccessWindow(window=2, min_trajectories=2)
    for iteration, pool, outcomes in ((0, "a", (True, False)), (1, "b.1", (False,)), (2, "a", (True, True, True))):
        for outcome in outcomes:
            window.add(iteration, pool, is_success=outcome)
    return window


def test_an_estimate_needs_enough_trajectories_within_the_window() -> None:
    window = _filled()
    assert window.rate("a") == 4 / 5
    assert window.rate("b.1") is None
    assert window.rate("never sampled") is None
    window.forget(3)  # of iterations 1 and 2
    assert window.rate("a") == 1.0
    window.forget(5)
    assert window.rate("a") is None


def test_too_few_trajectories_have_no_estimate() -> None:
    window = _filled()
    window.add(2, "b.1", is_success=False)
    assert window.rate("b.1") == 0.0
    assert window.mean_rate(["a", "b.1"]) == 0.4
    assert window.mean_rate(["a", "never sampled"]) is None
    assert window.mean_rate([]) is None


def test_state_round_trips_with_dots_in_pool_names() -> None:
    window = _filled()
    state = window.state()
    assert state["attempts.1.b.1"] == 1.0
    other = SuccessWindow(2, 2)
    other.load_state(state)
    other.forget(3)
    window.forget(3)
    assert other.state() == window.state() != state
