"""A run's kit: tasks from a file, another verifier, another tenant."""

import json
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from benchmarks.errands.kit import ErrandsKit
from upturn.environments import tools_of
from upturn.environments.hint import HintedKit
from upturn.errors import ConfigError
from upturn.loop.cycle import serve
from upturn.loop.rollouts.policy_worker import TaskSampler
from upturn.loop.run.task_source import FileKit, WrappedKit, kit_of, read_tasks
from upturn.records import Task, fields_json


@pytest.fixture
def task_file(desk: ModuleType, tmp_path: Path) -> Path:
    """Twenty sums and five products for training, four held-out sums."""
    kit, lines = desk.kit(), []
    for family, split, count in (("sums", "train", 20), ("products", "train", 5), ("sums", "heldout", 4)):
        lines += [fields_json(task) for task in islice(kit.tasks(seed=9, split=split, families=[family]), count)]
    path = tmp_path / "tasks.jsonl"
    path.write_text("\n".join(lines) + "\n\n")
    return path


def test_service_uses_each_task_of_the_file_once(desk: ModuleType, task_file: Path, tmp_path: Path) -> None:
    with desk.opened(tmp_path / "run", desk.config(tasks={"file": str(task_file), "count": 40})) as context:
        assert context.kit.families == {"sums": 1, "products": 1}
        serve(context, "serve", 40)
        served = list(context.pool.tasks(tenant="default"))
        assert context.next_tasks(1) == []
    assert len({task.id for task in served}) == len(served) == 25
    assert {task.split for task in served} == {"train"}
    assert [task.family for task in served[:12]] == ["sums", "products"] * 5 + ["sums"] * 2


def test_training_reuses_the_file_without_repeats_in_an_iteration(desk: ModuleType, task_file: Path) -> None:
    kit = kit_of(desk.config(tasks={"file": str(task_file)}))
    sampler = TaskSampler(kit, {"products": 1.0}, 3, seed=0)
    iterations = [[task.id for task in sampler.tasks(iteration)] for iteration in range(4)]
    assert all(len(set(ids)) == 3 for ids in iterations)
    tasks = TaskSampler(kit, {"products": 1.0}, 9, seed=0).tasks(0)
    assert len({task.id for task in tasks}) == len(tasks) == 5  # the file has no more


def test_bad_lines_are_reported_together(tmp_path: Path) -> None:
    good: dict[str, Any] = {"id": "a", "instruction": "add 1 2", "family": "sums"}
    path = tmp_path / "tasks.jsonl"
    lines = [good, good, {**good, "id": "b", "environment": "errands"}, {**good, "id": "c", "colour": "red"}, []]
    path.write_text("\n".join(json.dumps(line) for line in lines) + "\nnot json\n")
    with pytest.raises(ConfigError) as caught:
        read_tasks(path, "desk", "default")
    problems = "\n".join(caught.value.problems)
    for expected in (
        "line 2: id 'a' is a duplicate",
        "line 3: environment is 'errands', the run's is 'desk'",
        "line 4: not a Task",
        "line 5: a line holds one JSON object, got []",
        "line 6: ",
        "has no task with split 'heldout'",
    ):
        assert expected in problems
    assert len(caught.value.problems) == 6


def test_environment_and_tenant_have_defaults(tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    lines = [{"id": name, "instruction": "x", "family": "f", "split": name} for name in ("train", "heldout")]
    path.write_text("\n".join(json.dumps(line) for line in lines))
    assert read_tasks(path, "desk", "acme")[0] == Task("train", "x", "f", "desk", tenant="acme")


def test_the_configured_verifier_is_used(desk: ModuleType, tmp_path: Path) -> None:
    config = desk.config(("refuser",), environment={"verifier": "toy_desk:mild_judge"})
    with desk.opened(tmp_path, config) as context:
        served = context.service.serve(context.next_tasks(3))
    assert {result.evaluation.evaluator for result in served} == {"mild/1"}
    assert all(result.evaluation.is_success for result in served)


@pytest.mark.parametrize("path", ["toy_desk:nothing", "no_such_module:judge", "toy_desk:kit"])
def test_an_object_that_is_not_a_verifier_is_refused(desk: ModuleType, path: str) -> None:
    with pytest.raises(ConfigError, match=f"environment.verifier = '{path}'"):
        kit_of(desk.config(environment={"verifier": path}))


def test_tools_are_those_of_the_inner_kit() -> None:
    """Chat templates show them to the model, with any verifier and tenant."""
    errands, tasks = ErrandsKit(), [Task("a", "mail_file", "file it", "errands")]
    wrapped = (
        WrappedKit(errands, errands.verifier, "acme"),
        FileKit(errands, errands.verifier, tasks),
        HintedKit(errands, {}),
    )
    assert [tools_of(kit) for kit in wrapped] == [tools_of(errands)] * 3
    assert len(tools_of(errands)) == 20
