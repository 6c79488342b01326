"""Tasks: the bug is where the task says, tests show it by values, hidden calls are others."""

from random import Random

import pytest

from upturn.environments.repair.case import Call, RepairCase
from upturn.environments.repair.catalogue import PACKAGES
from upturn.environments.repair.generation import FAMILIES, IMPOSSIBLE, draw_case
from upturn.environments.repair.source import Program
from upturn.records import Split

EVERY = {**FAMILIES, **IMPOSSIBLE}


def drawn(family: str, split: Split = "train", seed: int = 0) -> RepairCase:
    return draw_case(EVERY[family], Random(f"{family}/{seed}"), split)


def is_right(program: Program, call: Call) -> bool:
    return program.call(call.module, call.function, eval(call.arguments)) == call.expected


@pytest.mark.parametrize("split", ["train", "heldout"])
@pytest.mark.parametrize("family", EVERY)
def test_a_task_is_broken_as_it_says(family: str, split: Split) -> None:
    case = drawn(family, split)
    assert case.package in {package.name for package in PACKAGES[split]}
    broken = Program({path: text for path, text in case.files.items() if path.startswith(case.package)})
    assert [is_right(broken, call) for call in case.public] == [
        number >= case.public_failing for number in range(len(case.public))
    ]
    hidden = [is_right(broken, call) for call in case.hidden]
    assert hidden == [number >= case.failing for number in range(len(hidden))]
    assert case.failing >= 2
    fixed = Program({**case.files, **case.fixed})
    assert all(is_right(fixed, call) for call in case.hidden)
    assert sum(not is_right(fixed, call) for call in case.public) == EVERY[family].is_impossible
    assert len(case.bugs) == EVERY[family].bugs
    assert len({bug.path for bug in case.bugs}) >= EVERY[family].files
    if not EVERY[family].is_impossible:
        assert not {call[:3] for call in case.public} & {call[:3] for call in case.hidden}


def test_the_same_seed_gives_the_same_task_and_others_differ() -> None:
    assert drawn("one_bug") == drawn("one_bug")
    assert drawn("one_bug").files != drawn("one_bug", seed=1).files


def test_the_tests_of_a_called_function_call_others() -> None:
    case = drawn("called_function")
    failing = {call.function for call in case.public[: case.public_failing]}
    assert case.bugs[0].function not in failing


def test_the_instruction_shows_the_line() -> None:
    case = drawn("shown_line")
    bug = case.bugs[0]
    number = int(case.instruction.partition(", line ")[2].partition(":")[0])
    line = case.files[bug.path].splitlines()[number - 1]
    assert line != case.fixed[bug.path].splitlines()[number - 1]
    assert case.instruction.endswith(f"function {bug.function}, line {number}: {line.strip()}")
