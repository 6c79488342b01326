"""The rule agent: solves tasks that its rules cover, and refuses others."""

from itertools import islice

import pytest

from upturn.environments.environment import verify
from upturn.environments.office.kit import OfficeKit
from upturn.environments.office.rule_agent import _KNOWN_PHRASINGS, _PARTLY, _WHOLE, act
from upturn.environments.office.tasks import FAMILIES
from upturn.environments.scripted_policy import play
from upturn.records import Action, Observation, Task, Trajectory, Turn

KIT = OfficeKit()


def rule_policy(task: Task, turns: object, observation: Observation) -> Action:
    assert isinstance(turns, list)
    return act(task.instruction, turns, observation)


def rollout(task: Task) -> Trajectory:
    return play(KIT.environment(task), task, rule_policy)


@pytest.mark.parametrize("family", [*_WHOLE, *_PARTLY])
def test_known_phrasings_are_solved_and_unknown_ones_refused(family: str) -> None:
    for task in islice(KIT.tasks(seed=2, split="train", families=[family]), 12):
        number = task.context["template"]
        assert isinstance(number, int)
        trajectory = rollout(task)
        last = trajectory.turns[-1].action
        if family in _WHOLE or number < _KNOWN_PHRASINGS:
            assert verify(KIT.verifier, task, trajectory).is_success, task.instruction
        else:
            assert last is not None and last.operation == "refuse", task.instruction


def test_requests_without_a_rule_are_refused() -> None:
    for family, kind in FAMILIES.items():
        if (
            family not in {*_WHOLE, *_PARTLY} and not kind.atoms
        ):  # with faults the words are those of another family
            (task,) = islice(KIT.tasks(seed=2, split="train", families=[family]), 1)
            assert act(task.instruction, [], Observation(task.instruction)) == Action(
                "user", "refuse", {"text": "no rule for this"}
            ), family


def test_it_gives_up_after_an_error_and_names_it() -> None:
    words = "what room is the retro oslo on 2026-03-06 in? the number is enough"
    first = act(words, [], Observation(words))
    assert first == Action("calendar", "list", {"day": "2026-03-06", "title": "retro oslo"})
    turns = [Turn(Observation(words), "", first)]
    assert act(words, turns, Observation("no", "throttled")).parameters == {"text": "stopped at throttled"}
