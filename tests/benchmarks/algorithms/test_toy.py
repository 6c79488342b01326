"""Rewards of the toys, and the exact expected reward of a policy."""

from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.algorithms.toy import ASK, FIRST, HINT, START, TOYS, Toy, bandit, key_door, lamp, language
from benchmarks.algorithms.toy_algorithms import ALGORITHMS
from benchmarks.algorithms.toy_policy import ToyPolicy, toy_model
from benchmarks.algorithms.toy_training import ToyRun

SMALL = {"bandit": 3, "key_door": 2, "language": 2, "lamp": 3}


@pytest.fixture(params=TOYS)
def toy(request: pytest.FixtureRequest) -> Toy:
    """Every toy in a small size."""
    return TOYS[request.param](SMALL[request.param])


def test_best_rollout_earns_one_and_none_earns_more(toy: Toy) -> None:
    for task in toy.openings:
        rewards = [sum(rollout.rewards) for rollout in toy.rewarded[task]]
        assert sum(toy.best(task).rewards) == pytest.approx(1.0)
        assert max(rewards) == pytest.approx(1.0)
        assert len({rollout.written for rollout in toy.rewarded[task]}) == len(rewards)


def test_unlisted_rollouts_earn_nothing() -> None:
    assert bandit(3).rewards("arm-4", [[4]]) == (1.0,)
    assert bandit(3).rewards("arm-4", [[5]]) == (0.25,)
    assert bandit(3).rewards("arm-6", [[4]]) == (0.25,), "the last arm's neighbour is the first"
    assert bandit(3).rewards("arm-4", [[6]]) == (0.0,)
    assert language(2).rewards("word-4-5", [[5, 4]]) == (1.0,)
    assert language(2).rewards("word-4-5", [[4, 5]]) == (0.0,)
    assert lamp(3).rewards("press-4", [[5, ASK]]) == (1.0,)
    assert lamp(3).rewards("press-4", [[5, 5]]) == (0.0,)


def test_tag_is_visible_only_with_the_right_key() -> None:
    toy = key_door(2)
    assert toy.openings["key-4-5"] == toy.openings["key-4-4"] == (START, 4, ASK)
    assert toy.observation("key-4-5", [4]) == (3, 5, 2)
    assert toy.observation("key-4-5", [5]) == toy.observation("key-4-4", [6]) == (3, 3, 2)
    assert toy.rewards("key-4-5", [[4], [5]]) == (0.2, 0.8)
    assert toy.rewards("key-4-5", [[4], [4]]) == (0.2, 0.0)
    assert toy.rewards("key-4-5", [[6], [0]]) == (0.1, 0.0)
    assert toy.rewards("key-4-5", [[5], [5]]) == (0.0, 0.0)


def test_expected_reward_is_the_expectation_over_all_rollouts(toy: Toy) -> None:
    policy = ToyPolicy(toy, toy_model(toy, 3), group_size=1, seed=0)
    expected = 0.0
    for task in toy.openings:
        for flat in product(range(toy.vocabulary), repeat=toy.turns * toy.written):
            turns = [flat[start : start + toy.written] for start in range(0, len(flat), toy.written)]
            if not any(toy.rewards(task, turns)):
                continue
            probability, tokens = 1.0, list(toy.openings[task])
            for number, turn in enumerate(turns):
                for token in turn:
                    with torch.no_grad():
                        logits = policy.model(torch.tensor([tokens])).logits[0, -1]
                    probability *= float(logits.softmax(-1)[token])
                    tokens.append(token)
                tokens += toy.observation(task, turn) if number + 1 < toy.turns else ()
            expected += probability * sum(toy.rewards(task, turns)) / len(toy.openings)
    assert policy.expected_reward() == pytest.approx(expected, rel=1e-4)


def test_rollouts_are_recorded_as_sampled(toy: Toy) -> None:
    policy = ToyPolicy(toy, toy_model(toy, 1), group_size=2, seed=5)
    groups = policy.collect(7)
    assert [group.task.id for group in groups] == list(toy.openings)
    assert policy.tokens == len(toy.openings) * 2 * toy.turns * toy.written
    for group in groups:
        for member in group.members:
            (row,) = member.trajectory.rows
            with torch.no_grad():
                logprobs = policy.model(torch.tensor([row.token_ids])).logits[0].log_softmax(-1)
            positions = [position for span in row.spans for position in range(span.start, span.stop)]
            expected = [float(logprobs[position - 1, row.token_ids[position]]) for position in positions]
            assert row.logprobs == pytest.approx(expected, abs=1e-4)
            turns = [[int(token) for token in turn.text.split()] for turn in member.trajectory.turns]
            assert member.turn_rewards == toy.rewards(group.task.id, turns)
            assert row.token_ids == toy.tokens(group.task.id, turns)


def test_draws_depend_on_seed_and_iteration_only() -> None:
    def written(seed: int, iteration: int, before: int = 0) -> list[str]:
        policy = ToyPolicy(bandit(8), toy_model(bandit(8), 0), group_size=16, seed=seed)
        for earlier in range(before):
            policy.collect(earlier)
        return [member.trajectory.turns[0].text for group in policy.collect(iteration) for member in group.members]

    assert written(0, 3) == written(0, 3, before=2)
    assert written(0, 3) != written(1, 3)
    assert written(0, 3) != written(0, 4)


def test_draws_follow_the_policy() -> None:
    """12,800 draws of 11 tokens: the chance that one share is off by .02 (7 deviations) is below 1e-9."""
    toy = bandit(7)
    policy = ToyPolicy(toy, toy_model(toy, 0), group_size=12_800, seed=0)
    (group,) = policy.sample_groups(toy.tasks[:1], 0)
    counts = np.bincount([int(member.trajectory.turns[0].text) for member in group.members], minlength=11)
    with torch.no_grad():
        probabilities = policy.model(torch.tensor([toy.openings["arm-4"]])).logits[0, -1].softmax(-1).numpy()
    assert np.abs(counts / 12_800 - probabilities).max() < 0.02


@pytest.mark.slow
def test_model_that_copies_hints_does_not_solve_the_tasks(tmp_path: Path) -> None:
    toy = language(3)
    policy = ToyPolicy(toy, toy_model(toy, 0), group_size=8, seed=0)
    preparation = ALGORITHMS["star"].preparation
    assert preparation is not None
    preparation.train(ToyRun(toy, 0, tmp_path), policy, preparation.settings)
    assert policy.expected_reward() < 0.2, "guessing among 9 words earns .11"
    hints = [(HINT, FIRST, FIRST + 1), (HINT, FIRST + 2, FIRST)]
    groups = policy.sample_groups(toy.tasks[:2], 0, hints=hints)
    copied = [
        member.trajectory.turns[0].text == " ".join(map(str, hint[1:]))
        for group, hint in zip(groups, hints, strict=True)
        for member in group.members
    ]
    assert sum(copied) >= 14
