"""Random actions fail a family if the exact interval of their success is above the bar, not by one success."""

import pytest

from benchmarks.errands.kit import ErrandsKit
from upturn.environments.validation import Plan, validate_kit
from upturn.environments.validation.family import _Count


@pytest.mark.parametrize(("hits", "holds"), [(0, True), (1, True), (3, True), (4, False), (80, False)])
def test_random_actions_miss_the_bar_only_if_their_interval_is_above_it(hits: int, holds: bool) -> None:
    """1 of 80 is above 1 %, but P(3 or more of 80 at 1 %) = 4.7 %, and of 4 or more 0.9 %."""
    tally = _Count()
    for number in range(80):
        tally.add(is_hit=number < hits, violation=f"success in {number}" if number < hits else "")
    check = tally.sample_check("random", most=0.01)
    assert (check.value, check.n, check.bar, check.holds) == (hits / 80, 80, "<= 0.01", holds)
    assert check.violation == ("" if holds else "success in 0")


def test_a_lucky_random_action_among_few_tasks_does_not_fail_a_sound_kit() -> None:
    """The first success of random actions in these four tasks; 1 of 80 is 1.25 %."""
    reports = validate_kit(ErrandsKit(), Plan(tasks=4), families=["mail_file"])
    [random] = [check for report in reports for check in report.checks if check.name == "random"]
    assert (random.value, random.n, random.holds) == (1 / 80, 80, True)
