"""The turns that stay: examples worked by hand, and invariants."""

from hypothesis import given
from hypothesis import strategies as st

from upturn.agents.context import StepTokens, select_forms

SIX = [StepTokens(50, 10)] * 6
RELEVANCE = [0.0, 0.5, 0.1, 0.0, 0.0, 0.0]


def forms(steps: list[StepTokens], relevance: list[float], room: int, window: int) -> str:
    return "".join(form[0] for form in select_forms(steps, relevance, room=room, window=window))


def test_the_window_stays_full_and_older_turns_become_summaries() -> None:
    # 50 for the newest, 2 × 50 for the window's others, 3 × 10 for the older: 180.
    assert forms(SIX, RELEVANCE, 180, 3) == "sssfff"


def test_the_least_relevant_turn_is_dropped_first() -> None:
    # 150 for the window leave 20: the summaries of the second (.5) and the third (.1) fit, not that of the first.
    assert forms(SIX, RELEVANCE, 179, 3) == "dssfff"
    assert forms(SIX, RELEVANCE, 160, 3) == "dsdfff"


def test_of_equally_relevant_turns_the_oldest_is_dropped() -> None:
    assert forms(SIX, [0.0] * 6, 179, 3) == "dssfff"


def test_a_window_turn_that_does_not_fit_is_summarised() -> None:
    # 120 - 50 - 50 leave 20: a summary for the window's third turn, then one for the most relevant older one.
    assert forms(SIX, RELEVANCE, 120, 3) == "dsdsff"


def test_the_newest_turn_stays_full_where_nothing_fits() -> None:
    assert forms(SIX, RELEVANCE, 0, 3) == "dddddf"
    assert forms(SIX, RELEVANCE, -1000, 1) == "dddddf"
    assert forms([StepTokens(5, 5)], [0.0], 0, 8) == "f"


def test_a_smaller_window_turn_fits_where_a_large_one_does_not() -> None:
    steps = [StepTokens(10, 5), StepTokens(90, 30), StepTokens(20, 10)]
    assert forms(steps, [0.0] * 3, 35, 3) == "fdf"


def test_a_turn_that_a_summary_does_not_shorten_stays_full() -> None:
    steps = [StepTokens(10, 10), StepTokens(10, 12), StepTokens(50, 10), StepTokens(50, 10)]
    assert forms(steps, [0.0] * 4, 200, 1) == "ffsf"


STEPS = st.lists(st.builds(StepTokens, st.integers(0, 60), st.integers(0, 40)), min_size=1, max_size=12)


@given(STEPS, st.data(), st.integers(-50, 300), st.integers(1, 14))
def test_all_but_the_newest_fit_and_no_turn_is_dropped_needlessly(
    steps: list[StepTokens], data: st.DataObject, room: int, window: int
) -> None:
    relevance = data.draw(st.lists(st.sampled_from([0.0, 0.3, 1.0]), min_size=len(steps), max_size=len(steps)))
    selected = select_forms(steps, relevance, room=room, window=window)
    assert selected == select_forms(steps, relevance, room=room, window=window)
    assert len(selected) == len(steps) and selected[-1] == "full"
    left = room - sum(step.of(form) for step, form in zip(steps, selected, strict=True))
    assert left >= min(0, room - steps[-1].full)
    for step, form in zip(steps, selected, strict=True):
        if form == "dropped":
            assert min(step.full, step.summary) > left
