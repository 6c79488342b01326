"""Transitions: which turns have one, with which tokens, and which of them are left out and why."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from upturn.errors import ModelError, TrainingError
from upturn.records import Action, Observation, TokenRow, Trajectory, Turn, WrittenSpan
from upturn.training.data.transition import (
    Transition,
    cap_common_outputs,
    check_unseen,
    extract_transitions,
    most_common_outputs,
    observation_rows,
)

OBS, ACT, END = 1, 2, 3
MAIL, USER = Action("mail", "read", {"id": "m1"}), Action("user", "finish")


class Letters:
    """Observations in letters: ``OBS text ACT``, one token a letter from 10 on."""

    prefix = (OBS,)
    stop_ids = (ACT,)

    def write(self, observation: Observation) -> tuple[int, ...]:
        text = f"error {observation.code}" if observation.is_error else observation.text
        return (*(10 + ord(letter) for letter in text), ACT)

    def read(self, token_ids: Sequence[int]) -> str | None:
        return "".join(chr(token - 10) for token in token_ids[:-1]) if token_ids[-1:] == (ACT,) else None


def _text(text: str) -> tuple[int, ...]:
    return Letters().write(Observation(text))[:-1]


def _walk(*steps: tuple[Action | None, Observation], name: str = "walk") -> Trajectory:
    """Every action is the tokens ``7 END``, and the next prompt goes on from it."""
    tokens, spans, turns = [5, ACT], [], []
    seen = Observation("task")
    for number, (action, answer) in enumerate(steps):
        spans.append(WrittenSpan(number, len(tokens), len(tokens) + 2))
        tokens += [7, END]
        turns.append(Turn(seen, "7", action))
        if number + 1 < len(steps):
            tokens += [OBS, *Letters().write(answer)]
        seen = answer
    row = TokenRow(tuple(tokens), tuple(spans), (-1.0,) * 2 * len(spans))
    return Trajectory(name, "task", "nano@1", tuple(turns), seen, "finished", "sampled", (row,))


def test_an_answer_between_other_tokens_is_excluded_and_counted() -> None:
    class ErrorsApart(Letters):
        def write(self, observation: Observation) -> tuple[int, ...]:
            if observation.is_error:
                raise ModelError("errors stand behind a token of their own")
            return super().write(observation)

    refused = Observation("no such mail", code="not_found")
    walk = _walk((MAIL, refused), (MAIL, Observation("hello")), (USER, Observation("done")))
    found, left_out = extract_transitions([walk], ErrorsApart())
    assert [each.text for each in found] == ["hello", "done"]
    assert left_out == {"framed": 1}


def test_each_turn_has_the_tokens_up_to_its_action_and_the_answer() -> None:
    found, left_out = extract_transitions([_walk((MAIL, Observation("ab")), (USER, Observation("ok")))], Letters())
    start = (5, ACT, 7, END, OBS)
    assert left_out == {}
    assert found == (
        Transition("walk/0", "task", "mail.read", start, (*_text("ab"), ACT), "ab"),
        Transition(
            "walk/1", "task", "user.finish", (*start, *_text("ab"), ACT, 7, END, OBS), (*_text("ok"), ACT), "ok"
        ),
    )


def test_refusals_are_predicted_as_agents_read_them_and_unreadable_actions_have_no_tool() -> None:
    refused = Observation("there is no mail m1", "not_found")
    found, _ = extract_transitions([_walk((MAIL, refused), (None, Observation("no call", "malformed")))], Letters())
    assert [(each.tool, each.text) for each in found] == [("mail.read", "error not_found"), ("", "error malformed")]


def test_unpredictable_observations_are_excluded_and_counted_by_cause() -> None:
    plain = _walk((MAIL, Observation("ab")), (USER, Observation("ok")))
    no_tokens = replace(plain, id="rule", rows=())
    broken = replace(plain, id="broken", outcome="environment_error")
    silent = _walk((MAIL, Observation("")), name="silent")
    (row,) = plain.rows
    other = tuple(9 if token == OBS else token for token in row.token_ids)
    foreign = replace(plain, id="foreign", rows=(replace(row, token_ids=other),), turns=plain.turns[:1])
    found, left_out = extract_transitions([plain, no_tokens, broken, silent, foreign], Letters())
    assert [each.id for each in found] == ["walk/0", "walk/1"]
    assert left_out == {"unwritten": 2, "repeated": 1, "broken": 1, "empty": 1, "foreign": 1}
    # 5 + 3 tokens, and 10 + 3: prompt and observation together
    short, left_out = extract_transitions([plain], Letters(), max_tokens=12)
    assert [each.id for each in short] == ["walk/0"]
    assert left_out == {"too_long": 1}
    assert extract_transitions([], Letters()) == ((), {})


def test_equal_answers_are_one_transition_and_different_answers_are_two() -> None:
    walks = [_walk((MAIL, Observation(text)), name=str(number)) for number, text in enumerate(["a", "b", "a"])]
    found, left_out = extract_transitions(walks, Letters())
    assert [(each.id, each.text) for each in found] == [("0/0", "a"), ("1/0", "b")]
    assert left_out == {"repeated": 1}


def _made(tool: str, text: str, name: str) -> Transition:
    return Transition(name, "task", tool, (5, int(name), OBS), (*_text(text), ACT), text)


def _several(*pairs: tuple[str, str]) -> list[Transition]:
    return [_made(tool, text, str(number)) for number, (tool, text) in enumerate(pairs)]


def test_the_most_common_output_is_per_tool_and_ties_go_to_the_alphabetically_first() -> None:
    some = _several(("a", "z"), ("a", "y"), ("a", "z"), ("b", "q"), ("b", "p"))
    assert most_common_outputs(some) == {"a": "z", "b": "p"}
    assert most_common_outputs(reversed(some)) == most_common_outputs(some)


def test_common_outputs_are_capped_at_the_number_of_others() -> None:
    some = _several(*[("a", "usual")] * 9, ("a", "x"), ("a", "y"), *[("b", "done")] * 5)
    for ratio, expected in ((1.0, 2), (2.5, 5), (0.0, 0), (9.0, 9)):
        kept = cap_common_outputs(some, ratio, seed=3)
        assert Counter(each.text for each in kept) == Counter({"x": 1, "y": 1, "usual": expected})
        assert kept == sorted(kept, key=lambda each: int(each.id))
        assert kept == cap_common_outputs(some, ratio, seed=3)
    assert len({tuple(each.id for each in cap_common_outputs(some, 1.0, seed=seed)) for seed in range(8)}) > 1


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xyz")), max_size=30), st.integers(0, 5))
def test_capping_keeps_all_other_outputs_and_leaves_no_common_majority(
    pairs: list[tuple[str, str]], seed: int
) -> None:
    some = _several(*pairs)
    usual, kept = most_common_outputs(some), cap_common_outputs(some, 1.0, seed=seed)
    for tool in usual:
        counts = Counter(each.text == usual[tool] for each in kept if each.tool == tool)
        assert counts[False] == sum(each.tool == tool and each.text != usual[tool] for each in some)
        assert counts[True] <= counts[False]


def test_rows_train_on_the_observation_only() -> None:
    (row,) = observation_rows(_several(("a", "xy")))
    assert row.token_ids.tolist() == [5, 0, OBS, *_text("xy"), ACT]
    assert row.positions.tolist() == [3, 4, 5]
    assert row.weights.tolist() == [1.0, 1.0, 1.0]
    assert row.token_ids.dtype == np.dtype(np.int64)
    assert row.weights.dtype == np.dtype(np.float32)
    assert row.old_logprobs is None


def test_trained_or_missing_held_out_transitions_are_refused() -> None:
    some = _several(("a", "x"), ("a", "y"), ("b", "x"))
    check_unseen(some[:2], some[2:])
    with pytest.raises(TrainingError, match=r"1 of 2 held-out transitions, such as '1', continue tokens"):
        check_unseen(some[:2], some[1:])
    with pytest.raises(TrainingError, match="no held-out transitions"):
        check_unseen(some, [])
