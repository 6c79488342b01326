"""How the nano model is made: pure batches, a schedule without gaps, demonstrations that are right and unseen."""

import re
from itertools import pairwise

import numpy as np
import pytest
from tokenizers import Tokenizer

from upturn.environments.errands import FAMILIES
from upturn.models import CompactRenderer
from upturn.models.nano import load_local
from upturn.training.demonstration import Demonstration, render, walk
from upturn.training.pretraining import (
    BUCKET,
    ROWS,
    SCHEDULE,
    SEEN_WEIGHT,
    TOTAL_STEPS,
    Phase,
    PretrainingSteps,
    kinds_of_step,
    new_model,
    new_tokenizer,
)

KINDS = sorted({kind for phase in SCHEDULE for kind in phase.mixture})


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return load_local("nano").tokenizer


def test_schedule_has_no_gap() -> None:
    assert SCHEDULE[0].first_step == 0
    for earlier, later in pairwise(SCHEDULE):
        assert later.first_step == earlier.first_step + earlier.steps
    assert SCHEDULE[-1].first_step + SCHEDULE[-1].steps == TOTAL_STEPS


def test_learning_rate_warms_up_and_falls_to_a_tenth() -> None:
    phase = Phase("p", 0, 100, {}, 1e-3, warmup_steps=10, decay_steps=50)
    assert [phase.learning_rate_factor(step) for step in (0, 4, 9, 50, 75)] == pytest.approx([0.1, 0.5, 1, 1, 0.5])
    assert phase.learning_rate_factor(99) == pytest.approx(0.1)
    assert min(phase.learning_rate_factor(step) for step in range(10, 100)) >= 0.1


def test_kinds_are_a_pure_function_of_the_step_and_numbers_never_repeat() -> None:
    numbers: set[int] = set()
    for phase in SCHEDULE:
        for step in (0, BUCKET):
            found = kinds_of_step(phase, step)
            assert found == kinds_of_step(phase, step)
            assert len(found) == ROWS * BUCKET
            assert {kind for kind, _ in found} <= set(phase.mixture)
            assert numbers.isdisjoint(number for _, number in found)
            numbers.update(number for _, number in found)


def test_resumed_phase_draws_the_same_steps(tokenizer: Tokenizer) -> None:
    phase = SCHEDULE[-1]
    straight = PretrainingSteps(phase, CompactRenderer(tokenizer))
    steps = [straight.unit(step) for step in range(BUCKET)]
    resumed = PretrainingSteps(phase, CompactRenderer(tokenizer)).unit(2)
    (wanted,), (found,) = steps[2].minibatches[0], resumed.minibatches[0]
    assert len(found.rows) == ROWS
    for mine, theirs in zip(found.rows, wanted.rows, strict=True):
        assert np.array_equal(mine.token_ids, theirs.token_ids)
        assert np.array_equal(mine.weights, theirs.weights)
    assert found.denominator == pytest.approx(sum(float(row.weights.sum()) for row in found.rows))
    weights = {float(weight) for row in found.rows for weight in row.weights}
    assert weights == {1.0, float(np.float32(SEEN_WEIGHT))}


@pytest.mark.parametrize("kind", KINDS)
def test_walks_are_repeatable_and_end_by_telling_the_user(kind: str) -> None:
    for number in range(5):
        steps = walk(kind, number)
        assert steps == walk(kind, number)
        assert steps[-1][1].target == "user"
        # A drill is about writing the operation; errands may refuse it.
        assert kind == "drill" or not any(observation.is_error for observation, _ in steps)


def test_no_walk_shows_a_held_out_phrasing() -> None:
    held_out = [re.sub(r"\\{\w+\\}", r".+", re.escape(text)) for each in FAMILIES.values() for text in each.heldout]
    pattern = re.compile("|".join(held_out))
    assert pattern.search("please place m27 in finance")
    for kind in KINDS:
        for number in range(60):
            instruction = walk(kind, number)[0][0].text
            assert not pattern.search(instruction), (kind, instruction)


def test_model_writes_its_actions_and_reads_the_rest(tokenizer: Tokenizer) -> None:
    renderer = CompactRenderer(tokenizer)
    steps = walk("mail_file", 3)
    found = render(renderer, steps)
    assert len(found.token_ids) == len(found.is_written)
    written = [token for token, is_written in zip(*found, strict=True) if is_written]
    assert written == [token for _, action in steps for token in renderer.write(action)]
    assert isinstance(found, Demonstration)
    assert not found.is_written[0]


def test_ids_hours_and_amounts_are_one_token_each() -> None:
    texts = ["move m27 to archive", "mail.move id=m27; folder=archive", "from 9 to 17", "B3"] * 50
    tokenizer = new_tokenizer(texts)
    pieces = tokenizer.encode("mail.move id=m27; folder=archive 17").tokens
    assert pieces.count("27") == 1
    assert pieces.count("17") == 1
    text = 'reply "ok, see you"\nB4 é 好'
    assert tokenizer.decode(tokenizer.encode(text).ids, skip_special_tokens=False) == text


def test_untrained_model_depends_on_the_seed_only() -> None:
    first, again, other = new_model(1), new_model(1), new_model(2)
    weights = [next(model.parameters()).detach() for model in (first, again, other)]
    assert bool((weights[0] == weights[1]).all())
    assert not bool((weights[0] == weights[2]).all())
    assert 1_000_000 <= first.num_parameters() <= 3_000_000
