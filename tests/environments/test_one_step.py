"""An environment from two functions: its tasks, its one step, and its verifier."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import count, islice
from random import Random
from typing import Any

import pytest

from upturn.environments import (
    Environment,
    EnvironmentKit,
    check_environment,
    fixed_policy,
    one_step,
    play,
    verify,
)
from upturn.environments.one_step import OneStepKit
from upturn.errors import UnknownNameError, WorldError
from upturn.records import Action, Observation, Split, Task, Trajectory, Turn, from_json, to_json


def make_sum(rng: Random) -> tuple[str, dict[str, Any]]:
    left, right = rng.randint(0, 10**6), rng.randint(0, 10**6)
    return f"What is {left} + {right}?", {"sum": left + right}


def make_product(rng: Random, split: str) -> tuple[str, dict[str, Any]]:
    left, right = rng.randint(0, 10**6), rng.randint(0, 10**6)
    words = "{} times {}?" if split == "train" else "multiply {} by {}"
    return words.format(left, right), {"sum": left * right}


def check(action: Action, expected: Mapping[str, Any]) -> float:
    """Half the score for the correct number in the wrong parameter."""
    if str(expected["sum"]) not in map(str, action.parameters.values()):
        return 0.0
    return 1.0 if (action.target, action.operation) == ("user", "answer") else 0.5


def sums() -> OneStepKit:
    return one_step("sums", {"add": make_sum, "multiply": make_product}, check, version=3, level=2)


def first_task(kit: OneStepKit, split: Split = "train", family: str = "add") -> Task:
    return next(kit.tasks(seed=0, split=split, families=[family]))


def play_actions(kit: OneStepKit, task: Task, *actions: Action) -> Trajectory:
    environment = kit.environment(task)
    observation, info = environment.reset(task)
    turns, outcome = [], "step_limit"
    for action in actions:
        step = environment.step(action)
        turns.append(Turn(observation, "", action, step.reward, step.info.cost_components, info.state_hash))
        observation, info = step.observation, step.info
        outcome = "finished" if step.is_terminated else outcome
    return Trajectory(
        "t", task.id, "me@1", tuple(turns), observation, outcome, "rendered", final_state=environment.state()  # type: ignore[arg-type]
    )  # fmt: skip


def answer(task: Task) -> Action:
    left, right = (int(word.strip("?")) for word in task.instruction.split() if word.strip("?").isdigit())
    return Action("user", "answer", {"text": str(left + right)})


def test_a_one_step_kit_passes_the_contract_check() -> None:
    kit = sums()
    assert isinstance(kit, EnvironmentKit)
    assert (kit.name, kit.families, kit.verifier.name) == ("sums", {"add": 2, "multiply": 2}, "sums/3")
    task = first_task(kit)
    assert isinstance(kit.environment(task), Environment)
    check_environment(kit, 6)
    assert one_step("one", make_sum, check).families == {"one": 1}


def test_tasks_are_unlimited_repeatable_and_disjoint_by_seed_and_split() -> None:
    kit = sums()
    drawn = {
        (seed, split): list(islice(kit.tasks(seed=seed, split=split, families=["add", "multiply"]), 20))
        for seed in (0, 1)
        for split in ("train", "heldout")
    }
    assert drawn[0, "train"] == list(islice(sums().tasks(seed=0, split="train", families=["add", "multiply"]), 20))
    tasks = [task for group in drawn.values() for task in group]
    assert len({task.id for task in tasks}) == len({(task.family, task.seed) for task in tasks}) == 80
    assert len({task.instruction for task in tasks}) == 80
    assert [task.family for task in drawn[1, "heldout"][:4]] == ["add", "multiply"] * 2
    assert drawn[0, "train"][0] == Task(
        "sums/add/train/0", drawn[0, "train"][0].instruction, "add", "sums", level=2, seed=0, split="train"
    )


def test_make_may_reserve_phrasings_for_held_out_tasks() -> None:
    kit = sums()
    assert "times" in first_task(kit, family="multiply").instruction
    assert first_task(kit, "heldout", family="multiply").instruction.startswith("multiply ")


def test_only_the_correct_action_is_a_success() -> None:
    kit = sums()
    task = first_task(kit)
    trajectory = play_actions(kit, task, answer(task))
    evaluation = kit.verifier.verify(task, trajectory)
    assert (evaluation.verdict, evaluation.score, evaluation.costs) == ("success", 1.0, {"error": 0.0})
    assert [(gate.name, gate.is_passed, gate.detail) for gate in evaluation.gates] == [
        ("answered", True, "finished"),
        ("right", True, "1"),
    ]
    wrong = play_actions(kit, task, Action("user", "answer", {"text": "no"}))
    assert (kit.verifier.verify(task, wrong).verdict, kit.verifier.verify(task, wrong).score) == ("failure", 0.0)
    nearly = play_actions(kit, task, Action("user", "shout", answer(task).parameters))
    assert (kit.verifier.verify(task, nearly).verdict, kit.verifier.verify(task, nearly).score) == ("failure", 0.5)
    assert kit.verifier.verify(task, play_actions(kit, task)).verdict == "failure"
    cut_off = replace(trajectory, outcome="time_limit")
    assert kit.verifier.verify(task, cut_off).verdict == "failure"


def test_a_stored_trajectory_gets_the_same_evaluation() -> None:
    kit = sums()
    task = first_task(kit)
    trajectory = play_actions(kit, task, answer(task))
    stored = from_json(Trajectory, to_json(trajectory))
    assert sums().verifier.verify(from_json(Task, to_json(task)), stored) == kit.verifier.verify(task, trajectory)


@pytest.mark.parametrize(
    ("action", "code"),
    [
        (Action("", ""), "malformed"),
        (Action("user", ""), "malformed"),
        (Action("user", "answer", {"text": float("nan")}), "bad_value"),
        (Action("user", "answer", {"text": "\ud800"}), "bad_value"),
    ],
)
def test_an_invalid_action_costs_but_leaves_the_task_open(action: Action, code: str) -> None:
    kit = sums()
    task = first_task(kit)
    environment = kit.environment(task)
    _, opening = environment.reset(task)
    step = environment.step(action)
    assert (step.observation.code, step.is_terminated, step.info.cost_components) == (code, False, {"error": 1.0})
    assert (step.info.state_hash, environment.state()) == (opening.state_hash, {"action": None})
    evaluation = kit.verifier.verify(task, play_actions(kit, task, action, answer(task)))
    assert (evaluation.verdict, evaluation.costs) == ("success", {"error": 1.0})


def test_only_the_first_valid_action_counts() -> None:
    kit = sums()
    task = first_task(kit)
    environment = kit.environment(task)
    environment.reset(task)
    before = environment.snapshot()
    assert environment.step(Action("user", "answer", {"text": "no"})).is_terminated
    late = environment.step(answer(task))
    assert (late.observation.code, late.is_terminated) == ("is_over", True)
    environment.restore(before)
    assert not environment.step(answer(task)).observation.is_error
    parameters = dict(answer(task).parameters)
    written = {"target": "user", "operation": "answer", "parameters": parameters, "thought": ""}
    assert environment.state() == {"action": written}


def test_a_task_of_another_make_function_is_refused() -> None:
    kit = sums()
    task = first_task(kit)
    for foreign in (
        replace(task, instruction="What is 1 + 1?"),
        replace(task, environment="errands"),
        replace(task, seed=2),
    ):
        with pytest.raises(WorldError, match="is not from this 'sums'"):
            kit.environment(foreign).reset(foreign)
    with pytest.raises(WorldError, match="call reset"):
        kit.environment(task).step(answer(task))
    with pytest.raises(UnknownNameError, match="sums has no family 'divide'; it has: add, multiply"):
        next(kit.tasks(seed=0, split="train", families=["divide"]))


def test_make_with_other_randomness_is_detected() -> None:
    numbers = count()
    kit = one_step("loose", lambda _: (f"What is {next(numbers)} + 0?", {"sum": 0}), check)
    task = next(kit.tasks(seed=0, split="train", families=["loose"]))
    with pytest.raises(WorldError, match="make must use only its generator"):
        kit.environment(task).reset(task)


@pytest.mark.parametrize("result", ["text", ("text",), ("", {}), (1, {}), ("text", 3), None])
def test_make_must_return_a_text_and_a_mapping(result: Any) -> None:
    kit = one_step("odd", lambda _: result, check)
    with pytest.raises(WorldError, match="make of 'odd' must return"):
        next(kit.tasks(seed=0, split="train", families=["odd"]))


@pytest.mark.parametrize("value", [None, "yes", 2, -0.1, float("nan")])
def test_check_must_return_a_number_in_0_to_1(value: Any) -> None:
    kit = one_step("odd", make_sum, lambda _, __: value)
    task = next(kit.tasks(seed=0, split="train", families=["odd"]))
    trajectory = Trajectory(
        "t", task.id, "me@1", (), Observation("done"), "finished", "rendered",
        final_state={"action": {"target": "user", "operation": "finish"}},
    )  # fmt: skip
    with pytest.raises(WorldError, match="check of 'odd' must return True, False or a number"):
        kit.verifier.verify(task, trajectory)


@pytest.mark.parametrize(("name", "make"), [("", make_sum), ("none", {})])
def test_an_environment_needs_a_name_and_a_family(name: str, make: Any) -> None:
    with pytest.raises(WorldError, match="needs a name and a family"):
        one_step(name, make, check)


@pytest.mark.parametrize("error", [ValueError("no such city"), SystemExit(3)], ids=repr)
def test_a_make_that_raises_is_named_with_its_seed(error: BaseException) -> None:
    def make(rng: Random) -> tuple[str, dict[str, Any]]:
        raise error

    kit = one_step("cities", make, check)
    with pytest.raises(WorldError) as caught:
        next(kit.tasks(seed=0, split="heldout", families=["cities"]))
    assert str(caught.value) == (
        f"make of 'cities' raised {type(error).__name__}: {error} for the heldout task of family 'cities' with "
        "seed 1; it must give a task for every seed"
    )
    assert caught.value.__cause__ is error


@pytest.mark.parametrize("status", [None, 0, 3])
def test_an_exit_in_check_is_a_missing_evaluation(status: int | None) -> None:
    def leave(action: Action, expected: Mapping[str, Any]) -> bool:
        raise SystemExit(status)

    kit = one_step("exit", make_sum, leave)
    task = first_task(kit, family="exit")
    trajectory = play(kit.environment(task), task, fixed_policy((Action("user", "answer"),)))
    evaluation = verify(kit.verifier, task, trajectory)
    assert (evaluation.verdict, evaluation.score) == ("missing", None)
    assert evaluation.gates[0].detail == f"SystemExit: {status}"
    with pytest.raises(WorldError, match=f"raised SystemExit: {status}"):
        check_environment(kit, 2)
