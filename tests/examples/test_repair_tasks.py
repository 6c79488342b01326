"""The repair tasks: solvable by one command, not by anything else, and with other functions in held-out tasks."""

import importlib.util
import re
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from upturn.environments import ProgramEnd, fixed_policy, hint_of, play, run_check
from upturn.environments.programs import ProgramKit
from upturn.records import Split, Task, Trajectory

PATH = Path(__file__).parents[2] / "examples" / "programs" / "repair_tasks.py"
FAMILIES = ["operator", "seen", "variable", "swapped", "off_by_one"]


@pytest.fixture(scope="module")
def tasks() -> Iterator[ModuleType]:
    spec = importlib.util.spec_from_file_location("repair_tasks", PATH)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["repair_tasks"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["repair_tasks"]


def drawn(kit: ProgramKit, family: str, split: Split, count: int) -> list[Task]:
    return list(islice(kit.tasks(seed=0, split=split, families=[family]), count))


def verdict(kit: ProgramKit, task: Task, shell: str) -> str:
    """The verdict on a program that runs this shell command."""
    environment = kit.environment(task)
    environment.reset(task)
    run_check(environment.folder(), ["sh", "-c", shell])
    step = environment.finish(ProgramEnd("", 0))
    state = environment.state()
    environment.close()
    trajectory = Trajectory("t", task.id, "a@1", (), step.observation, "finished", "rendered", final_state=state)
    return kit.verifier.verify(task, trajectory).verdict


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("split", ["train", "heldout"])
def test_the_hinted_command_repairs_the_file(tasks: ModuleType, family: str, split: Split) -> None:
    for task in drawn(tasks.kit, family, split, 3):
        command = hint_of(tasks.kit, task)
        assert command is not None and command.startswith("sed -i 's/") and command.endswith("/' f.py")
        assert verdict(tasks.kit, task, command) == "success", (task.instruction, command)


@pytest.mark.parametrize(
    "shell",
    [
        "true",
        "rm -f f.py",
        ": > f.py",
        "echo 'import os; os._exit(0)' > f.py",
        "echo 'import time; time.sleep(1000)' > f.py; false",
        "sed -i 's/return.*/return 1/' f.py",
        "sed -i 's/return.*/return f/' f.py",
        "rm f.py; mkdir f.py",
        "echo 'print(1' >> f.py",
    ],
)
def test_other_commands_do_not(tasks: ModuleType, monkeypatch: pytest.MonkeyPatch, shell: str) -> None:
    monkeypatch.setattr(tasks, "SECONDS", 1.0)
    [task] = drawn(tasks.kit, "operator", "train", 1)
    assert verdict(tasks.kit, task, shell) == "failure"


@pytest.mark.parametrize("family", FAMILIES)
def test_the_oracle_solves_a_task_and_the_kits_attacks_do_not(tasks: ModuleType, family: str) -> None:
    kit: ProgramKit = tasks.kit
    [task] = drawn(kit, family, "heldout", 1)
    oracle = kit.oracle(task)
    assert oracle is not None
    policies = {"nothing": fixed_policy(()), "oracle": oracle, **kit.attacks(task)}
    trajectories = {name: play(kit.environment(task), task, policy) for name, policy in policies.items()}
    scores = {name: kit.verifier.verify(task, trajectory).score for name, trajectory in trajectories.items()}
    assert scores == {"nothing": 0, "oracle": 1, "delete_all": 0, "empty_all": 0, "tamper": 0}


def first_file(kit: ProgramKit, task: Task) -> str:
    environment = kit.environment(task)
    environment.reset(task)
    files: Any = environment.state()["files"]
    environment.close()
    return str(files["f.py"]["text"])


BODY = re.compile(r"\w+ = lambda .*|return .*|= .*|# .*|(?<=\")\w+(?=\")|(?<=if )\w(?= is)|def .*:")
ARGUMENTS = re.compile(r"\((.*?)\):|lambda (.*?):")


def test_held_out_functions_have_other_shapes_and_variables(tasks: ModuleType) -> None:
    shapes: dict[str, set[str]] = {}
    variables: dict[str, set[frozenset[str]]] = {}
    for split in ("train", "heldout"):
        texts = [first_file(tasks.kit, task) for family in FAMILIES for task in drawn(tasks.kit, family, split, 20)]
        shapes[split] = {BODY.sub("…", text) for text in texts}
        arguments = [match for text in texts if (match := ARGUMENTS.search(text))]
        variables[split] = {frozenset((match[1] or match[2]).split(", ")) for match in arguments}
    assert len(shapes["train"]) == 8 and len(shapes["heldout"]) == 3
    assert not shapes["train"] & shapes["heldout"]
    assert len(variables["train"]) > 20
    assert not variables["train"] & variables["heldout"]


def test_only_the_first_level_shows_the_line(tasks: ModuleType) -> None:
    for family in FAMILIES:
        for task in drawn(tasks.kit, family, "train", 5):
            assert (": return " in task.instruction) == (family == "operator")
            assert len(task.instruction) < 40 and len(first_file(tasks.kit, task)) < 100


def test_tasks_hardly_repeat(tasks: ModuleType) -> None:
    for family in FAMILIES:
        texts = [first_file(tasks.kit, task) for task in drawn(tasks.kit, family, "train", 20)]
        assert len(set(texts)) >= 19, family
