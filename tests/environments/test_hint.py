"""A hint precedes the first observation and changes nothing else."""

from collections.abc import Callable, Mapping
from itertools import islice
from random import Random
from typing import Any

import pytest

from benchmarks.errands.environment import ErrandsEnvironment
from benchmarks.errands.kit import ErrandsKit
from upturn.environments import Environment, EnvironmentKit, check_environment, one_step
from upturn.environments.hint import HintedEnvironment, HintedKit, HintingKit, add_hint, hint_of
from upturn.environments.one_step import OneStepKit
from upturn.environments.scripted_policy import fixed_policy, play
from upturn.models import read_call
from upturn.records import Observation, Task


def _task(family: str = "mail_file") -> Task:
    return next(iter(ErrandsKit().tasks(seed=3, split="train", families=[family])))


def test_only_the_first_observation_starts_with_the_hint() -> None:
    kit, task = ErrandsKit(), _task()
    plain, hinted = kit.environment(task), HintedKit(kit, {task.id: "hint: do it"}).environment(task)
    assert isinstance(hinted, Environment)
    observation, info = plain.reset(task)
    hinted_observation, hinted_info = hinted.reset(task)
    assert hinted_observation == add_hint(observation, "hint: do it")
    assert hinted_observation == Observation(f"hint: do it\n{task.instruction}")
    assert hinted_info == info
    action = read_call(str(hint_of(kit, task)).splitlines()[0])
    assert action is not None
    assert hinted.step(action) == plain.step(action)
    assert hinted.state() == plain.state()
    saved, saved_plain = hinted.snapshot(), plain.snapshot()
    finish = read_call("user.finish")
    assert finish is not None
    assert hinted.step(finish) == plain.step(finish)
    hinted.restore(saved)
    plain.restore(saved_plain)
    assert hinted.step(finish) == plain.step(finish)


def test_tasks_without_a_hint_are_unchanged() -> None:
    kit = HintedKit(ErrandsKit(), {"another": "hint"})
    assert not isinstance(kit.environment(_task()), HintedEnvironment)
    assert isinstance(kit, EnvironmentKit)
    ours, theirs = (
        list(islice(errands.tasks(seed=1, split="train", families=["mail_file"]), 3))
        for errands in (kit, ErrandsKit())
    )
    assert ours == theirs


def test_a_hinted_environment_keeps_its_blocks_marker() -> None:
    class Slow(ErrandsEnvironment):
        blocks = True

    assert HintedEnvironment(Slow(), "hint").blocks
    assert not HintedEnvironment(ErrandsKit().environment(_task()), "hint").blocks


@pytest.mark.parametrize("family", ErrandsKit().families)
def test_the_hint_of_errands_solves_its_task(family: str) -> None:
    kit = ErrandsKit()
    for task in islice(kit.tasks(seed=5, split="train", families=[family]), 3):
        hint = hint_of(kit, task)
        assert hint is not None
        actions = [action for action in map(read_call, hint.splitlines()) if action is not None]
        attempt = play(kit.environment(task), task, fixed_policy(actions))
        assert kit.verifier.verify(task, attempt).is_success


def _desk(hint: Callable[[Mapping[str, Any]], str] | None = None) -> OneStepKit:
    def make(rng: Random) -> tuple[str, Mapping[str, Any]]:
        left, right = rng.randint(0, 9), rng.randint(0, 9)
        return f"{left} and {right}?", {"sum": left + right}

    return one_step("desk", make, lambda _action, _right: True, hint=hint)


def test_a_kit_without_answers_gives_no_hint() -> None:
    class Plain:
        def __init__(self) -> None:
            kit = _desk()
            self.name, self.families, self.verifier = kit.name, kit.families, kit.verifier
            self.environment, self.tasks = kit.environment, kit.tasks

    (task,) = islice(_desk().tasks(seed=0, split="train", families=["desk"]), 1)
    assert not isinstance(Plain(), HintingKit)
    assert [hint_of(kit, task) for kit in (_desk(), Plain())] == [None, None]


def test_a_hint_function_gives_a_one_step_kit_its_hints() -> None:
    kit = _desk(lambda expected: f"the sum is {expected['sum']}")
    for task in islice(kit.tasks(seed=0, split="train", families=["desk"]), 5):
        left, _, right = task.instruction.rstrip("?").split()
        assert hint_of(kit, task) == f"the sum is {int(left) + int(right)}"
    check_environment(kit, 3)
