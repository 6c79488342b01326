"""Transitions: which turns have one, with which tokens, and which are excluded and why."""

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


def _trajectory(*steps: tuple[Action | None, Observation], name: str = "rollout") -> Trajectory:
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
                raise ModelError("errors follow a token of their own")
            return super().write(observation)

    refused = Observation("no such mail", code="not_found")
    trajectory = _trajectory((MAIL, refused), (MAIL, Observation("hello")), (USER, Observation("done")))
    transitions, excluded = extract_transitions([trajectory], ErrorsApart())
    assert [transition.text for transition in transitions] == ["hello", "done"]
    assert excluded == {"framed": 1}


def test_each_turn_has_the_tokens_up_to_its_action_and_the_answer() -> None:
    transitions, excluded = extract_transitions(
        [_trajectory((MAIL, Observation("ab")), (USER, Observation("ok")))], Letters()
    )
    start = (5, ACT, 7, END, OBS)
    assert excluded == {}
    assert transitions == (
        Transition("rollout/0", "task", "mail.read", start, (*_text("ab"), ACT), "ab"),
        Transition(
            "rollout/1", "task", "user.finish", (*start, *_text("ab"), ACT, 7, END, OBS), (*_text("ok"), ACT), "ok"
        ),
    )


def test_refusals_are_predicted_as_agents_read_them_and_unreadable_actions_have_no_tool() -> None:
    refused = Observation("there is no mail m1", "not_found")
    transitions, _ = extract_transitions(
        [_trajectory((MAIL, refused), (None, Observation("no call", "malformed")))], Letters()
    )
    assert [(transition.tool, transition.text) for transition in transitions] == [
        ("mail.read", "error not_found"),
        ("", "error malformed"),
    ]


def test_unpredictable_observations_are_excluded_and_counted_by_cause() -> None:
    plain = _trajectory((MAIL, Observation("ab")), (USER, Observation("ok")))
    no_tokens = replace(plain, id="rule", rows=())
    broken = replace(plain, id="broken", outcome="environment_error")
    silent = _trajectory((MAIL, Observation("")), name="silent")
    (row,) = plain.rows
    other = tuple(9 if token == OBS else token for token in row.token_ids)
    foreign = replace(plain, id="foreign", rows=(replace(row, token_ids=other),), turns=plain.turns[:1])
    transitions, excluded = extract_transitions([plain, no_tokens, broken, silent, foreign], Letters())
    assert [transition.id for transition in transitions] == ["rollout/0", "rollout/1"]
    assert excluded == {"unwritten": 2, "repeated": 1, "broken": 1, "empty": 1, "foreign": 1}
    # 5 + 3 tokens, and 10 + 3: prompt and observation together
    short, excluded = extract_transitions([plain], Letters(), max_tokens=12)
    assert [transition.id for transition in short] == ["rollout/0"]
    assert excluded == {"too_long": 1}
    assert extract_transitions([], Letters()) == ((), {})


def test_equal_answers_are_one_transition_and_different_answers_are_two() -> None:
    trajectories = [
        _trajectory((MAIL, Observation(text)), name=str(number)) for number, text in enumerate(["a", "b", "a"])
    ]
    transitions, excluded = extract_transitions(trajectories, Letters())
    assert [(transition.id, transition.text) for transition in transitions] == [("0/0", "a"), ("1/0", "b")]
    assert excluded == {"repeated": 1}


def _made(tool: str, text: str, name: str) -> Transition:
    return Transition(name, "task", tool, (5, int(name), OBS), (*_text(text), ACT), text)


def _several(*pairs: tuple[str, str]) -> list[Transition]:
    return [_made(tool, text, str(number)) for number, (tool, text) in enumerate(pairs)]


def test_the_most_common_output_is_per_tool_and_ties_go_to_the_alphabetically_first() -> None:
    uncapped = _several(("a", "z"), ("a", "y"), ("a", "z"), ("b", "q"), ("b", "p"))
    assert most_common_outputs(uncapped) == {"a": "z", "b": "p"}
    assert most_common_outputs(reversed(uncapped)) == most_common_outputs(uncapped)


def test_common_outputs_are_capped_at_the_number_of_others() -> None:
    uncapped = _several(*[("a", "common")] * 9, ("a", "x"), ("a", "y"), *[("b", "done")] * 5)
    for ratio, expected in ((1.0, 2), (2.5, 5), (0.0, 0), (9.0, 9)):
        capped = cap_common_outputs(uncapped, ratio, seed=3)
        assert Counter(transition.text for transition in capped) == Counter({"x": 1, "y": 1, "common": expected})
        assert capped == sorted(capped, key=lambda transition: int(transition.id))
        assert capped == cap_common_outputs(uncapped, ratio, seed=3)
    assert (
        len(
            {
                tuple(transition.id for transition in cap_common_outputs(uncapped, 1.0, seed=seed))
                for seed in range(8)
            }
        )
        > 1
    )


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xyz")), max_size=30), st.integers(0, 5))
def test_capping_keeps_all_other_outputs_and_leaves_no_common_majority(
    pairs: list[tuple[str, str]], seed: int
) -> None:
    uncapped = _several(*pairs)
    common, capped = most_common_outputs(uncapped), cap_common_outputs(uncapped, 1.0, seed=seed)
    for tool in common:
        counts = Counter(transition.text == common[tool] for transition in capped if transition.tool == tool)
        assert counts[False] == sum(
            transition.tool == tool and transition.text != common[tool] for transition in uncapped
        )
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
    uncapped = _several(("a", "x"), ("a", "y"), ("b", "x"))
    check_unseen(uncapped[:2], uncapped[2:])
    with pytest.raises(TrainingError, match=r"1 of 2 held-out transitions, such as '1', continue tokens"):
        check_unseen(uncapped[:2], uncapped[1:])
    with pytest.raises(TrainingError, match="no held-out transitions"):
        check_unseen(uncapped, [])
