"""A hint is removed completely before training, and trajectories that repeat it are detected."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upturn.agents.hint import Hint, repeats_hint, without_hint
from upturn.errors import TrainingError
from upturn.records import Observation, TokenRow, Trajectory, Turn, WrittenSpan
from upturn.training.row import policy_rows, supervised_rows

OBSERVATION = Observation("double seven")
HINT = Hint("hint: the answer is 14", OBSERVATION, hinted_ids=(1, 8, 9, 14, 5, 6, 2), plain_ids=(1, 5, 6, 2))
"""Tokens 8, 9, 14 are the hint."""


def _trajectory(
    tokens: tuple[int, ...] = (1, 8, 9, 14, 5, 6, 2, 30, 31, 40, 32),
    spans: tuple[WrittenSpan, ...] = (WrittenSpan(0, 7, 9), WrittenSpan(1, 10, 11)),
    *,
    texts: tuple[str, str] = ("seven and seven", "answer 14"),
    result: str = "go on",
) -> Trajectory:
    turns = (
        Turn(Observation(f"{HINT.text}\n{OBSERVATION.text}"), texts[0], None),
        Turn(Observation(result), texts[1], None),
    )
    written = sum(span.stop - span.start for span in spans)
    return Trajectory(
        id="helped",
        task_id="task",
        agent_version="nano@1",
        turns=turns,
        final_observation=Observation(""),
        outcome="finished",
        origin="sampled",
        rows=(TokenRow(tokens, spans, (-1.0,) * written),),
        temperature=1.0,
        model_version="abc",
    )


def test_without_hint_keeps_sampled_tokens_after_the_plain_prompt() -> None:
    plain = without_hint(_trajectory(), HINT)
    assert plain.rows == (TokenRow((1, 5, 6, 2, 30, 31, 40, 32), (WrittenSpan(0, 4, 6), WrittenSpan(1, 7, 8)), ()),)
    assert [turn.observation.text for turn in plain.turns] == ["double seven", "go on"]
    (row,) = supervised_rows([plain])
    assert row.token_ids[row.positions].tolist() == [30, 31, 32]


def test_without_hint_counts_as_rendered() -> None:
    plain = without_hint(_trajectory(), HINT)
    assert (plain.origin, plain.temperature, plain.model_version) == ("rendered", None, "")
    assert plain.id != "helped"
    with pytest.raises(TrainingError, match="is 'rendered': a policy gradient needs"):
        policy_rows(plain, (1.0, 1.0))


tokens = st.lists(st.integers(0, 3), min_size=1, max_size=5).map(tuple)


@given(tokens, tokens, tokens)
def test_an_inserted_hint_is_located_anywhere(
    start: tuple[int, ...], inserted: tuple[int, ...], end: tuple[int, ...]
) -> None:
    """Where the hint starts like the tokens after it, a rotation of it is located, with the same tokens."""
    located = Hint("", OBSERVATION, start + inserted + end, start + end).token_ids
    assert sorted(located) == sorted(inserted)


def test_a_replacing_hint_spans_the_first_to_the_last_differing_token() -> None:
    assert Hint("", OBSERVATION, (1, 7, 7, 3, 2), (1, 4, 3, 2)).token_ids == (7, 7)
    assert HINT.token_ids == (8, 9, 14)


def test_reaching_the_answer_does_not_repeat_the_hint() -> None:
    """The answer must be written: 14 is in the text and in the tokens."""
    trajectory = _trajectory((1, 8, 9, 14, 5, 6, 2, 30, 31, 40, 14))
    assert not repeats_hint(without_hint(trajectory, HINT), HINT, ("hint",))


@pytest.mark.parametrize(
    "texts",
    [
        ("as the hint says", "answer 14"),
        ("Hint: the answer  is\n14", "answer 14"),
        ("it says 'HINT'", "answer 14"),
    ],
    ids=["mentioned", "quoted", "in capitals"],
)
def test_quoting_the_hint_repeats_it(texts: tuple[str, str]) -> None:
    assert repeats_hint(without_hint(_trajectory(texts=texts), HINT), HINT, ("hint",))


def test_whole_words_are_compared() -> None:
    hinted = _trajectory(texts=("the hinterland", "answer 14"))
    assert not repeats_hint(without_hint(hinted, HINT), HINT, ("hint",))
    assert repeats_hint(without_hint(hinted, HINT), HINT, ("hinterland",))


def test_a_quotation_is_detected_without_listed_words() -> None:
    quoting = _trajectory(texts=("I know: the hint: THE ANSWER is 14", "answer 14"))
    assert repeats_hint(without_hint(quoting, HINT), HINT)


@pytest.mark.parametrize(
    ("tokens", "spans"),
    [
        ((1, 8, 9, 14, 5, 6, 2, 8, 9, 14), (WrittenSpan(0, 7, 10),)),
        ((1, 8, 9, 14, 5, 6, 2, 30, 8, 9, 14, 31), (WrittenSpan(0, 7, 10), WrittenSpan(1, 11, 12))),
    ],
    ids=["written", "partly written"],
)
def test_repeated_hint_tokens_are_detected_without_text(
    tokens: tuple[int, ...], spans: tuple[WrittenSpan, ...]
) -> None:
    trajectory = _trajectory(tokens, spans, texts=("", ""))
    assert repeats_hint(without_hint(trajectory, HINT), HINT)


def test_a_hint_in_an_observation_is_refused() -> None:
    echoed = _trajectory(
        (1, 8, 9, 14, 5, 6, 2, 30, 31, 8, 9, 14, 32), (WrittenSpan(0, 7, 9), WrittenSpan(1, 12, 13))
    )
    with pytest.raises(
        TrainingError, match=r"the hint leaks: trajectory 'helped/without-hint' still reads its tok"
    ):
        repeats_hint(without_hint(echoed, HINT), HINT)
    reminded = _trajectory(result="remember: hint: the answer is 14")
    with pytest.raises(TrainingError, match="still reads its words 'hint: the answer is 14'"):
        repeats_hint(without_hint(reminded, HINT), HINT)


def test_a_hint_that_cannot_be_removed_is_refused() -> None:
    forked = _trajectory()
    other = TokenRow((1, 8, 9, 14, 7, 2, 30), (WrittenSpan(1, 6, 7),), (-1.0,), "history_changed")
    with pytest.raises(TrainingError, match="has a row that does not start with the hinted prompt"):
        without_hint(replace(forked, rows=(*forked.rows, other)), HINT)
    within = _trajectory(spans=(WrittenSpan(0, 6, 9),))
    with pytest.raises(TrainingError, match="has a row that does not start with the hinted prompt"):
        without_hint(within, HINT)
    with pytest.raises(TrainingError, match="'helped' has a hint without tokens"):
        without_hint(_trajectory(), replace(HINT, hinted_ids=HINT.plain_ids))


def test_a_trajectory_without_turns_stays_empty() -> None:
    empty = without_hint(replace(_trajectory(), turns=(), rows=()), HINT)
    assert (empty.turns, empty.rows) == ((), ())
    assert not repeats_hint(empty, HINT, ("hint",))
