"""Examples: successes at similar tasks, which a task's first observation begins with."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import ModuleType

import pytest

from tests.pool.conftest import build_point
from upturn.agents import build, examples_text
from upturn.config import AgentConfig, Limits
from upturn.errors import ConfigError, ModelError
from upturn.loop.agent_runtime import AgentRuntime, Purpose
from upturn.loop.run.context import version_of
from upturn.pool import PoolRecall
from upturn.records import Action, AgentVersion, Observation, Recalled, Task, Turn

WITH = AgentVersion("refuser", "with", "callable", model="toy_desk:refuser", parameters={"examples": 2})
WITHOUT = replace(WITH, version="without", parameters={})


class Memory:
    """Recalls two fixed successes, and counts how often it is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []

    def similar(self, task: Task, k: int) -> Sequence[Recalled]:
        self.asked.append((task.id, k))
        points = [build_point(name) for name in ("near", "far")]
        return [
            Recalled(replace(task, instruction=f"do  {task.id}\n"), trajectory, 0.5)
            for task, trajectory, _ in points
        ]


def test_the_first_observation_begins_with_the_most_similar_example_last(desk: ModuleType) -> None:
    kit, memory = desk.kit(), Memory()
    (task,) = islice(kit.tasks(seed=0, split="train", families=["sums"]), 1)
    runtime = AgentRuntime(kit, Limits(max_turns=2), recall=memory)
    jobs = [(WITH, task, 0), (WITH, task, 1), (WITHOUT, task, 0)]
    first, second, plain = runtime.rollout(jobs, Purpose("p", 0))
    seen = first.turns[0].observation.text
    assert seen == second.turns[0].observation.text
    assert seen.splitlines() == [
        "example: do task-far",
        "> mail.move id=3 to=work",
        "= moved",
        "> done",
        "example: do task-near",
        "> mail.move id=3 to=work",
        "= moved",
        "> done",
        task.instruction,
    ]
    assert plain.turns[0].observation.text == task.instruction
    assert memory.asked == [(task.id, 2)]
    assert runtime.sibling().recall is memory


def test_examples_are_short() -> None:
    task, trajectory, _ = build_point("a")
    call = Turn(Observation("x"), "", Action("mail", "send", {"to": "ann"}))
    long = replace(trajectory, turns=(call,) * 20, final_observation=Observation("y" * 300))
    lines = examples_text([Recalled(task, long, 1.0)]).splitlines()
    assert len(lines) == 1 + 2 * 12
    assert lines[1:3] == ["> mail.send to=ann", "= x"]
    cut = examples_text([Recalled(task, replace(long, turns=(call,)), 1.0)]).splitlines()[-1]
    assert cut == "= " + "y" * 199 + "…"
    assert examples_text([]) == ""


def test_examples_need_a_pool_and_a_usable_number(desk: ModuleType) -> None:
    kit = desk.kit()
    (task,) = islice(kit.tasks(seed=0, split="train", families=["sums"]), 1)
    with pytest.raises(ModelError, match="'refuser@with' has examples = 2, but there is no pool here"):
        AgentRuntime(kit, Limits(max_turns=2)).rollout([(WITH, task, 0)], Purpose("p", 0))
    for value in (-1, 17, 1.5, True):
        with pytest.raises(ConfigError, match="examples must be a whole number from 0 to 16"):
            build(replace(WITH, parameters={"examples": value}), limits=Limits())
    with pytest.raises(ConfigError, match="'examples' has no effect on kind 'rule_based'"):
        build(replace(WITH, kind="rule_based"), limits=Limits())


def test_the_setting_is_a_parameter_of_the_version() -> None:
    agent = AgentConfig(name="a", kind="callable", import_path="toy_desk:solver", examples=3)
    assert version_of(agent).parameters == {"examples": 3}
    assert version_of(replace(agent, examples=0)).parameters == {}


def test_a_run_recalls_from_its_pool(desk: ModuleType, tmp_path: Path) -> None:
    with desk.opened(tmp_path / "run") as context:
        task, trajectory, evaluation = build_point("a")
        context.pool.append(replace(task, instruction="add 1 2"), trajectory, evaluation)
        (new,) = context.next_tasks(1)
        assert context.runtime.recall.similar(new, 1) == []  # it came after the run had begun
        assert [
            item.task.id for item in PoolRecall(context.pool).similar(replace(new, instruction="add 3"), 1)
        ] == ["task-a"]
