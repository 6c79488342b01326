"""Toys are what they say, and what a policy is worth on them is exact."""

from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.algorithms.toy import ASK, FIRST, HINT, START, TOYS, Toy, bandit, key_door, lamp, language
from benchmarks.algorithms.toy_algorithms import CONTESTANTS
from benchmarks.algorithms.toy_policy import Player, toy_model
from benchmarks.algorithms.toy_training import Contest

SMALL = {"bandit": 3, "key_door": 2, "language": 2, "lamp": 3}


@pytest.fixture(params=TOYS)
def toy(request: pytest.FixtureRequest) -> Toy:
    """Each of them, small."""
    return TOYS[request.param](SMALL[request.param])


def test_the_best_way_earns_one_and_no_way_earns_more(toy: Toy) -> None:
    for task in toy.openings:
        earned = [sum(each.rewards) for each in toy.earnings[task]]
        assert sum(toy.best(task).rewards) == pytest.approx(1.0)
        assert max(earned) == pytest.approx(1.0)
        assert len({each.written for each in toy.earnings[task]}) == len(earned)


def test_what_is_not_listed_earns_nothing() -> None:
    assert bandit(3).rewards("arm-4", [[4]]) == (1.0,)
    assert bandit(3).rewards("arm-4", [[5]]) == (0.25,)
    assert bandit(3).rewards("arm-6", [[4]]) == (0.25,), "the last arm's neighbour is the first"
    assert bandit(3).rewards("arm-4", [[6]]) == (0.0,)
    assert language(2).rewards("word-4-5", [[5, 4]]) == (1.0,)
    assert language(2).rewards("word-4-5", [[4, 5]]) == (0.0,)
    assert lamp(3).rewards("press-4", [[5, ASK]]) == (1.0,)
    assert lamp(3).rewards("press-4", [[5, 5]]) == (0.0,)


def test_the_tag_is_seen_with_the_right_key_only() -> None:
    toy = key_door(2)
    assert toy.openings["key-4-5"] == toy.openings["key-4-4"] == (START, 4, ASK)
    assert toy.shown("key-4-5", [4]) == (3, 5, 2)
    assert toy.shown("key-4-5", [5]) == toy.shown("key-4-4", [6]) == (3, 3, 2)
    assert toy.rewards("key-4-5", [[4], [5]]) == (0.2, 0.8)
    assert toy.rewards("key-4-5", [[4], [4]]) == (0.2, 0.0)
    assert toy.rewards("key-4-5", [[6], [0]]) == (0.1, 0.0)
    assert toy.rewards("key-4-5", [[5], [5]]) == (0.0, 0.0)


def test_worth_is_the_expectation_over_everything_that_can_be_written(toy: Toy) -> None:
    player = Player(toy, toy_model(toy, 3), attempts=1, seed=0)
    expected = 0.0
    for task in toy.openings:
        for flat in product(range(toy.vocabulary), repeat=toy.turns * toy.written):
            turns = [flat[start : start + toy.written] for start in range(0, len(flat), toy.written)]
            if not any(toy.rewards(task, turns)):
                continue
            probability, read = 1.0, list(toy.openings[task])
            for number, turn in enumerate(turns):
                for token in turn:
                    with torch.no_grad():
                        logits = player.model(torch.tensor([read])).logits[0, -1]
                    probability *= float(logits.softmax(-1)[token])
                    read.append(token)
                read += toy.shown(task, turn) if number + 1 < toy.turns else ()
            expected += probability * sum(toy.rewards(task, turns)) / len(toy.openings)
    assert player.worth() == pytest.approx(expected, rel=1e-4)


def test_attempts_are_recorded_as_they_were_sampled(toy: Toy) -> None:
    player = Player(toy, toy_model(toy, 1), attempts=2, seed=5)
    groups = player.collect(7)
    assert [group.task.id for group in groups] == list(toy.openings)
    assert player.tokens == len(toy.openings) * 2 * toy.turns * toy.written
    for group in groups:
        for member in group.members:
            (row,) = member.trajectory.rows
            with torch.no_grad():
                logs = player.model(torch.tensor([row.token_ids])).logits[0].log_softmax(-1)
            places = [place for span in row.spans for place in range(span.start, span.stop)]
            found = [float(logs[place - 1, row.token_ids[place]]) for place in places]
            assert row.logprobs == pytest.approx(found, abs=1e-4)
            turns = [[int(token) for token in turn.text.split()] for turn in member.trajectory.turns]
            assert member.turn_rewards == toy.rewards(group.task.id, turns)
            assert row.token_ids == toy.tokens(group.task.id, turns)


def test_draws_depend_on_seed_and_iteration_only() -> None:
    def written(seed: int, iteration: int, before: int = 0) -> list[str]:
        player = Player(bandit(8), toy_model(bandit(8), 0), attempts=16, seed=seed)
        for each in range(before):
            player.collect(each)
        return [member.trajectory.turns[0].text for group in player.collect(iteration) for member in group.members]

    assert written(0, 3) == written(0, 3, before=2)
    assert written(0, 3) != written(1, 3)
    assert written(0, 3) != written(0, 4)


def test_draws_follow_the_policy() -> None:
    """12,800 draws of 11 tokens: the chance that one share is off by .02 (7 deviations) is below 1e-9."""
    toy = bandit(7)
    player = Player(toy, toy_model(toy, 0), attempts=12_800, seed=0)
    (group,) = player.play(toy.tasks[:1], 0)
    counts = np.bincount([int(each.trajectory.turns[0].text) for each in group.members], minlength=11)
    with torch.no_grad():
        policy = player.model(torch.tensor([toy.openings["arm-4"]])).logits[0, -1].softmax(-1).numpy()
    assert np.abs(counts / 12_800 - policy).max() < 0.02


@pytest.mark.slow
def test_a_model_that_copies_hints_knows_nothing_of_the_tasks(tmp_path: Path) -> None:
    toy = language(3)
    player = Player(toy, toy_model(toy, 0), attempts=8, seed=0)
    lesson = CONTESTANTS["star"].lesson
    assert lesson is not None
    lesson.teach(Contest(toy, 0, tmp_path), player, lesson.settings)
    assert player.worth() < 0.2, "guessing among 9 words is worth .11"
    told = [(HINT, FIRST, FIRST + 1), (HINT, FIRST + 2, FIRST)]
    groups = player.play(toy.tasks[:2], 0, hints=told)
    copied = [
        member.trajectory.turns[0].text == " ".join(map(str, hint[1:]))
        for group, hint in zip(groups, told, strict=True)
        for member in group.members
    ]
    assert sum(copied) >= 14
