"""Ready-made evaluations: exit code, answer, report of the program, hidden tests."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from upturn.environments import ProgramEnd, WorkspaceLimits, count_tests, program_kit, run_pytest, verify
from upturn.environments.programs import EVALUATORS, ProgramKit
from upturn.errors import UnknownNameError, WorldError
from upturn.records import Evaluation, JsonValue, Observation, Outcome, Task, Trajectory

TESTS = {
    "tests/test_add.py": "from add import add\n\ndef test_small():\n    assert add(1, 2) == 3\n\n"
    "class TestMore:\n    def test_zero(self):\n        assert add(0, 0) == 0\n"
}
RIGHT = "def add(a, b):\n    return a + b\n"
WRONG = "def add(a, b):\n    return a - b\n"


def kit(evaluate: str, **expected: Any) -> ProgramKit:
    return program_kit("x", lambda _rng: ("do it", expected, {"add.py": WRONG}), evaluate)


def evaluation(
    of: ProgramKit, files: dict[str, str] | None = None, end: ProgramEnd | None = None, outcome: str = "finished"
) -> Evaluation:
    task = next(of.tasks(seed=0, split="train", families=["x"]))
    environment = of.environment(task)
    environment.reset(task)
    for path, text in (files or {}).items():
        (environment.folder() / path).write_text(text)
    environment.finish(end or ProgramEnd())
    trajectory = replace(trajectory_of("t", task, environment.state()), outcome=cast(Outcome, outcome))
    return verify(of.verifier, task, trajectory)


def trajectory_of(name: str, task: Task, state: Mapping[str, JsonValue]) -> Trajectory:
    done = Observation("done")
    return Trajectory(name, task.id, "a@1", (), done, "finished", "rendered", final_state=state)


def test_an_exit_code_of_zero_is_a_success() -> None:
    of = kit("exit_code")
    assert evaluation(of, end=ProgramEnd("", 0)).is_success
    assert (evaluation(of, end=ProgramEnd("", 1)).verdict, evaluation(of, end=ProgramEnd("", 1)).score) == (
        "failure",
        0,
    )
    assert evaluation(of, end=ProgramEnd("", None), outcome="time_limit").verdict == "failure"


def test_a_function_has_no_exit_code_so_its_reward_is_missing() -> None:
    result = evaluation(kit("exit_code"))
    assert (result.verdict, result.score) == ("missing", None)
    assert result.gates[0].detail.endswith("there is no exit code: only a command that ends by itself has one")


def test_an_answer_is_compared_in_any_form() -> None:
    assert evaluation(kit("answer", answer="42"), end=ProgramEnd(" 42.0\n")).is_success
    assert evaluation(kit("answer", answer=["a", 7]), end=ProgramEnd("7")).is_success
    assert evaluation(kit("answer", answer="42"), end=ProgramEnd("43")).verdict == "failure"
    assert evaluation(kit("answer"), end=ProgramEnd("43")).verdict == "missing", "expected has no answer"


def test_the_programs_own_report_is_read() -> None:
    report = '<testsuite><testcase name="a"/><testcase name="b"><failure/></testcase></testsuite>'
    of = kit("junit")
    assert evaluation(of, {"report.xml": report}).score == 0.5
    assert evaluation(kit("junit", least=4), {"report.xml": report}).score == 0.25
    assert evaluation(kit("junit", report="out.xml"), {"report.xml": report}).score == 0
    assert evaluation(of, {"report.xml": "<html>"}).score == 0


def test_hidden_tests_decide() -> None:
    of = kit("pytest", tests=TESTS)
    right = evaluation(of, {"add.py": RIGHT})
    assert (right.verdict, right.score) == ("success", 1.0)
    wrong = evaluation(of)
    assert (wrong.verdict, wrong.score) == ("failure", 0.5), "0 - 0 is 0"


@pytest.mark.parametrize(
    "files",
    [
        {"conftest.py": "def pytest_runtest_call(item):\n    item.obj = print\n"},
        {"pytest.ini": "[pytest]\naddopts = --collect-only\n"},
        {"pyproject.toml": '[tool.pytest.ini_options]\naddopts = "-k nothing"\n'},
        {"pytest.py": "import os\nos._exit(0)\n"},
        {"sitecustomize.py": "import os\nos._exit(0)\n"},
        {"test_add.py": "def test_passes(): pass\n"},
        {"add.py": "import os\nos._exit(0)\n"},
        {"add.py": "import sys\nsys.exit(0)\n"},
        {"add.py": "import pytest\n\ndef add(a, b):\n    pytest.skip('no')\n"},
        {"add.py": "def add(a, b):\n    raise SystemExit(0)\n"},
        {"report.xml": '<testsuite><testcase name="a"/><testcase name="b"/></testsuite>'},
    ],
)  # fmt: skip
def test_what_a_program_leaves_beside_its_work_passes_no_test(files: dict[str, str]) -> None:
    result = evaluation(kit("pytest", tests=TESTS), files)
    assert result.verdict == "failure"
    assert result.score == (0.0 if "add.py" in files else 0.5)


def test_tests_that_never_end_have_failed(tmp_path: Path) -> None:
    (tmp_path / "add.py").write_text("import time; time.sleep(1000)\n")
    report = run_pytest(tmp_path, TESTS, seconds=1.0)
    assert report.share(least=count_tests(TESTS)) == 0


def test_a_task_without_tests_is_missing_by_name(tmp_path: Path) -> None:
    assert evaluation(kit("pytest", tests={})).gates[0].detail.startswith("WorldError: expected['tests'] must have")
    with pytest.raises(WorldError, match=r"tests are files named test_….py or …_test.py, got \['check.py'\]"):
        run_pytest(tmp_path, {"check.py": "def test_a(): pass"})
    with pytest.raises(WorldError, match="pytest is not installed for /bin/false"):
        run_pytest(tmp_path, TESTS, python="/bin/false")


def test_tests_are_counted_as_pytest_collects_them() -> None:
    assert count_tests(TESTS) == 2
    text = "import pytest\n@pytest.fixture\ndef test_client(): ...\ndef helper():\n    def test_inner(): ...\n"
    assert (
        count_tests({"test_a.py": text, "data.py": "def test_b(): ...", "b_test.py": "async def test_c(): ..."})
        == 1
    )
    assert count_tests({"test_a.py": "def broken("}) == 1


def test_an_unknown_evaluator_is_refused_by_name() -> None:
    with pytest.raises(
        UnknownNameError, match="unknown evaluator 'exit'; known: exit_code, answer, junit, pytest; or"
    ):
        kit("exit")
    assert list(EVALUATORS) == ["exit_code", "answer", "junit", "pytest"]


def test_a_batch_is_evaluated_in_order() -> None:
    of = program_kit(
        "x",
        lambda rng: ("do it", {"answer": str(rng.random())}),
        lambda answer, expected: answer == expected["answer"],
        limits=WorkspaceLimits(files=1),
    )
    tasks = [task for task, _ in zip(of.tasks(seed=0, split="train", families=["x"]), range(6), strict=False)]
    finished = []
    for number, task in enumerate(tasks):
        environment = of.environment(task)
        environment.reset(task)
        hidden = of._cases.of(task).expected["answer"]
        environment.finish(ProgramEnd(hidden if number % 2 else "no"))
        finished.append((task, trajectory_of(f"t{number}", task, environment.state())))
    finished.append((tasks[0], trajectory_of("bad", tasks[0], {})))
    evaluations = of.verifier.verify_all(finished)
    assert [one.verdict for one in evaluations] == ["failure", "success"] * 3 + ["missing"]
    assert [one.trajectory_id for one in evaluations] == [trajectory.id for _, trajectory in finished]
