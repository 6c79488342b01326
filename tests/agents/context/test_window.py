"""Conversations cut to a budget, with a word as a token: numbers worked by hand, and invariants."""

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from upturn.agents import LimitReachedError
from upturn.agents.context import Budget, ContextWindow, View, observation_text, shorten
from upturn.records import Action, Observation, Turn

INSTRUCTION = "move the mails"
EIGHT = "a b c d e f g h"
BUDGET = Budget(tokens=100, window_turns=3, observation_tokens=20, summary_tokens=4, low_mark=0.6)
OPENING = 3


def words(text: str) -> int:
    return len(text.split())


WINDOW = ContextWindow(BUDGET, words, step_tokens=1, reserve=5)


def conversation(turns: int, result: str = EIGHT) -> tuple[list[Turn], Observation]:
    """An instruction, then that many turns of one word, numbered, each answered by ``result``."""
    observations = [Observation(INSTRUCTION), *(Observation(result) for _ in range(turns))]
    history = [
        Turn(before, f"m.t{index}", Action("m", f"t{index}")) for index, before in enumerate(observations[:-1])
    ]
    return history, observations[-1]


def used_tokens(view: View) -> int:
    """Tokens of the view, including the reserve."""
    history = sum(1 + words(turn.text) for turn in view.turns)
    later = [*(turn.observation for turn in view.turns[1:]), view.observation]
    return (
        words(view.turns[0].observation.text)
        + history
        + sum(words(observation_text(observation)) for observation in later)
        + 5
    )


def test_the_history_is_not_rewritten_within_the_budget() -> None:
    # 3 + 9 × (1 + 1 + 8) + 5 = 98 of 100.
    turns, observation = conversation(9)
    assert WINDOW.replay(turns, observation, opening=OPENING) == View(
        tuple(turns), observation, ("full",) * 9, is_rewritten=False
    )


def test_the_history_is_rewritten_down_to_the_low_mark() -> None:
    # 108 at the tenth turn. The low mark of 60 leaves 60 - 5 - 3 - 6 (the note) = 46: 10 for each of the window's
    # three turns, and 16 for older ones, whose summaries take 1 + 1 + 4: two of them, the newest among equals.
    turns, observation = conversation(10)
    view = WINDOW.replay(turns, observation, opening=OPENING)
    assert view.is_rewritten
    assert view.forms == ("dropped",) * 5 + ("summary",) * 2 + ("full",) * 3
    assert [turn.text for turn in view.turns] == ["m.t5", "m.t6", "m.t7", "m.t8", "m.t9"]
    assert [turn.observation.text for turn in view.turns] == [
        f"{INSTRUCTION}\n[5 earlier turns are left out]",
        "a… [14 more characters]",
        "a… [14 more characters]",
        EIGHT,
        EIGHT,
    ]
    assert view.observation == Observation(EIGHT)
    assert used_tokens(view) == 3 + 6 + 2 * 6 + 3 * 10 + 5
    assert view == WINDOW.rewrite(turns, observation, opening=OPENING)


def rewriting_turns(window: ContextWindow, turns: int) -> list[int]:
    """The turns after which the history is rewritten."""
    history, last = conversation(turns)
    observations = [*(turn.observation for turn in history[1:]), last]
    return [
        done
        for done in range(1, turns + 1)
        if window.replay(history[:done], observations[done - 1], opening=OPENING).is_rewritten
    ]


def test_a_low_mark_makes_rewriting_rare() -> None:
    # After each rewriting 56 of 100 are used: four further turns of 10 fit, a fifth does not.
    assert rewriting_turns(WINDOW, 30) == [10, 15, 20, 25, 30]
    # With hardly any space between the marks every turn rewrites, once nothing is left to summarise.
    tight = replace(WINDOW, budget=replace(BUDGET, low_mark=0.99))
    assert rewriting_turns(tight, 30) == [10, *range(13, 31)]


def test_prompts_extend_each_other_unless_the_history_is_rewritten() -> None:
    history, last = conversation(30)
    observations = [*(turn.observation for turn in history[1:]), last]
    before: View | None = None
    for done in range(1, 31):
        view = WINDOW.replay(history[:done], observations[done - 1], opening=OPENING)
        if before is not None:
            extends = view.turns[:-1] == before.turns and view.turns[-1].observation == before.observation
            assert extends != view.is_rewritten
        before = view


def test_turns_relevant_to_the_latest_observation_are_kept() -> None:
    turns, _ = conversation(10)
    turns[3] = replace(
        turns[3], observation=Observation("the invoice of march c d e f")
    )  # the result of the third turn
    view = WINDOW.rewrite(turns, Observation("and where is the invoice g h"), opening=OPENING)
    assert [turn.text for turn in view.turns] == ["m.t2", "m.t6", "m.t7", "m.t8", "m.t9"]


def test_a_custom_relevance_decides() -> None:
    turns, observation = conversation(10)
    oldest = replace(WINDOW, relevance=lambda _, texts: [-float(index) for index in range(len(texts))])
    view = oldest.rewrite(turns, observation, opening=OPENING)
    assert [turn.text for turn in view.turns] == ["m.t0", "m.t1", "m.t7", "m.t8", "m.t9"]


def test_a_long_observation_is_truncated_with_a_note() -> None:
    text = " ".join(["word"] * 50)
    # Of 249 characters two fifths are 99, 20 words, and the note takes three more; so do nine tenths of them, 18
    # words; nine tenths of those, 16 words, fit.
    assert WINDOW.truncate(Observation(text)).text == " ".join(["word"] * 16) + "… [170 more characters]"
    assert WINDOW.truncate(Observation(text, code="busy")).code == "busy"
    short = Observation(" ".join(["word"] * 20))
    assert WINDOW.truncate(short) is short


def test_summaries_drop_thoughts_and_shorten_text_that_is_not_a_call() -> None:
    turns, observation = conversation(10, "ok")
    thoughtful = "so it goes on and on\nm.t5"
    turns[5] = replace(turns[5], text=thoughtful, action=replace(turns[5].action or Action("", ""), thought="so"))
    turns[6] = replace(turns[6], text="I do not know what to do about it", action=None)
    view = WINDOW.rewrite(turns, observation, opening=OPENING)
    # The other older turns are as short in full as summarised: 1 + 1 + 1.
    assert view.forms == ("full",) * 5 + ("summary",) * 2 + ("full",) * 3
    assert view.turns[5].text == "m.t5" and view.turns[5].action == Action("m", "t5")
    assert view.turns[6].text == "I… [32 more characters]"


def test_a_view_without_room_raises_limit_reached() -> None:
    turns, observation = conversation(1)
    turns[0] = replace(turns[0], text=" ".join(["x"] * 91))  # 3 + 1 + 91 + 5 = 100: nothing is left for the result
    with pytest.raises(LimitReachedError):
        WINDOW.replay(turns, observation, opening=OPENING)
    turns[0] = replace(turns[0], text=" ".join(["x"] * 86))  # five words are left
    view = WINDOW.replay(turns, observation, opening=OPENING)
    assert view.observation.text == "a b… [12 more characters]"
    assert used_tokens(view) == 100


@pytest.mark.parametrize(
    ("limit", "expected"),
    [(8, EIGHT), (7, "a b c d… [8 more characters]"), (2, "[15 characters]"), (1, ""), (0, ""), (-3, "")],
)
def test_a_text_is_shortened_to_its_limit(limit: int, expected: str) -> None:
    assert shorten(EIGHT, limit, words) == expected


TEXT = st.lists(st.sampled_from(["mail", "bob", "invoice", "42", "the"]), max_size=30).map(" ".join)
CODE = st.sampled_from(["ok", "ok", "not_found"])


@st.composite
def conversations(draw: st.DrawFn) -> tuple[list[Turn], Observation]:
    observations = [
        Observation(draw(TEXT)),
        *draw(st.lists(st.builds(Observation, TEXT, CODE), min_size=1, max_size=8)),
    ]
    history = [
        Turn(before, f"t{index} {draw(TEXT)}"[:40], Action("m", f"t{index}") if draw(st.booleans()) else None)
        for index, before in enumerate(observations[:-1])
    ]
    return history, observations[-1]


@settings(max_examples=60)
@given(conversations(), st.integers(1, 6), st.integers(30, 160), st.floats(0.05, 0.95))
def test_views_fit_and_keep_instruction_newest_turn_and_order(
    drawn: tuple[list[Turn], Observation], window_turns: int, tokens: int, low_mark: float
) -> None:
    turns, observation = drawn
    budget = Budget(tokens, window_turns, tokens // 4, 4, low_mark)
    window = ContextWindow(budget, words, 1, reserve=5)
    instruction = turns[0].observation.text
    opening = words(instruction)
    newest = 1 + words(turns[-1].text) + words(observation_text(window.truncate(observation)))
    for cut in (window.replay, window.rewrite):
        try:
            view = cut(turns, observation, opening=opening)
        except LimitReachedError:
            note = words("[1 earlier turn is left out]") if len(turns) > 1 else 0
            assert opening + note + newest + 5 > tokens
            continue
        assert used_tokens(view) <= tokens
        assert view == cut(turns, observation, opening=opening)
        assert view.turns[0].observation.text.startswith(instruction)
        assert view.turns[-1].text == turns[-1].text and view.forms[-1] == "full"
        assert view.observation.code == observation.code
        indices = [int("".join(re.findall(r"\d", turn.text.split()[0]))) for turn in view.turns]
        assert indices == [index for index, form in enumerate(view.forms) if form != "dropped"]
