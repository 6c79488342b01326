"""The sides of the sampling comparison on tiny conversations: what they write is the model's, turn by turn."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks.implementations.engine import Sampling, engine_side
from benchmarks.implementations.generate import Generating, How, generate_side
from benchmarks.implementations.sampling import Written, prepare, score, scored
from benchmarks.worker_process import Side
from benchmarks.workloads.conversations import Conversations, read_conversations
from benchmarks.workloads.model import Subject
from upturn.errors import ConfigError
from upturn.models.engine import LocalEngine

Talk = Callable[[Side, Mapping[str, Any], int], list[dict[str, Any]]]
TINY = Conversations(12, tasks=3, attempts=2, turns=3, action_tokens=(1, 5), observation_tokens=4, vocabulary=64)
SETTINGS: dict[str, Any] = {
    "subject": asdict(Subject(width=64, layers=2, vocabulary=64, positions=128)),
    "conversations": TINY.settings(),
    "threads": 1,
}
HOWS: list[How] = ["whole", "growing", "allocated", "shared"]


def check(attempts: list[Written]) -> None:
    """Prompt, actions of the drawn lengths, observations: in this order, and nothing else."""
    prompts, observations, lengths = TINY.prompts(), TINY.observations(), TINY.lengths()
    for row, attempt in enumerate(attempts):
        expected = list(prompts[row])
        positions: list[int] = []
        for turn in range(TINY.turns):
            count = int(lengths[turn, row])
            positions += range(len(expected), len(expected) + count)
            expected += attempt.token_ids[len(expected) : len(expected) + count]
            expected += list(observations[turn, row])
        assert list(attempt.token_ids) == expected
        assert list(attempt.positions) == positions
        assert len(attempt.logprobs) == len(positions)


@pytest.mark.parametrize("how", HOWS)
def test_generate_in_every_way_leaves_the_conversations_and_true_logprobs(how: How) -> None:
    model, conversations = prepare(SETTINGS)
    attempts = Generating(model, conversations, how).attempts()
    check(attempts)
    found = score(model, attempts)
    assert found.max_logprob_gap < 1e-5
    assert abs(found.z_score) < 5, "exceeded with probability 6e-7"


def test_the_engine_leaves_the_conversations_and_true_logprobs_and_draws_anew_each_step() -> None:
    model, conversations = prepare(SETTINGS)
    sampling = Sampling(LocalEngine(model, slots=6, max_length=conversations.context), conversations)
    first, second = sampling.attempts(), sampling.attempts()
    for attempts in (first, second):
        check(attempts)
        assert score(model, attempts).max_logprob_gap < 1e-5
    assert [each.token_ids for each in first] != [each.token_ids for each in second]


def test_tokens_that_were_not_drawn_from_the_model_are_found_out() -> None:
    model, conversations = prepare(SETTINGS)
    attempts = Sampling(LocalEngine(model, slots=6, max_length=conversations.context), conversations).attempts()
    logits = model(input_ids=torch.tensor([list(attempts[0].token_ids)])).logits[0]
    likely = [
        Written(
            (*TINY.prompts()[0].tolist(), int(logits[TINY.prompt_tokens - 1].argmax())), [TINY.prompt_tokens], [0.0]
        )
    ] * 40
    assert score(model, likely).z_score > 5
    shifted = [each._replace(logprobs=[value + 1e-3 for value in each.logprobs]) for each in attempts]
    assert score(model, shifted).max_logprob_gap == pytest.approx(1e-3, rel=0.05)


@pytest.mark.parametrize(("side", "own"), [(engine_side, {}), (generate_side, {"how": "growing"})])
def test_sides_answer_how_well_they_agree_and_then_seconds(talk: Talk, side: Side, own: dict[str, Any]) -> None:
    prepared, *steps = talk(side, SETTINGS | own, 2)
    assert prepared["max_logprob_gap"] < 1e-5
    assert abs(prepared["z_score"]) < 5, "exceeded with probability 6e-7"
    assert len(steps) == 2
    assert all(step["seconds"] > 0 for step in steps)


def test_conversations_are_the_same_wherever_they_are_made() -> None:
    again = read_conversations(TINY.settings())
    assert again == TINY
    np.testing.assert_array_equal(again.prompts(), TINY.prompts())
    assert (TINY.prompts()[0] == TINY.prompts()[1]).all() and (TINY.prompts()[0] != TINY.prompts()[2]).any()
    assert TINY.observations().shape == (3, 6, 4)
    assert set(TINY.lengths().ravel().tolist()) <= {1, 2, 3, 4, 5}
    assert TINY.context == 12 + 3 * 9
    assert scored(TINY) == [0, 1, 2, 3, 4, 5]
    assert scored(Conversations(5, tasks=2, attempts=8)) == [0, 1, 8, 9]


def test_impossible_conversations_are_refused_with_everything_that_is_wrong() -> None:
    with pytest.raises(ConfigError) as caught:
        Conversations(0, turns=0, action_tokens=(5, 4), vocabulary=1)
    for part in ("prompt_tokens must be", "turns must be", "action_tokens must be", "vocabulary must be"):
        assert part in str(caught.value)
