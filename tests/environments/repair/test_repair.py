"""The environment with its tools, and the verifier: oracle, other right repairs, attacks, impossible tasks."""

from collections.abc import Iterator

import pytest

from upturn.environments import check_environment, resolve_kit
from upturn.environments.repair.attacks import edit, submit
from upturn.environments.repair.environment import RepairEnvironment
from upturn.environments.repair.kit import RepairKit, impossible_kit
from upturn.environments.scripted_policy import ScriptedPolicy, fixed_policy, play
from upturn.records import Action, Evaluation, Task, Trajectory

pytestmark = pytest.mark.usefixtures("bubblewrap")


@pytest.fixture(scope="module")
def kit() -> RepairKit:
    return RepairKit()


@pytest.fixture(scope="module")
def task(kit: RepairKit) -> Task:
    return next(kit.tasks(seed=1, split="train", families=["two_bugs"]))


@pytest.fixture
def environment(kit: RepairKit, task: Task) -> Iterator[RepairEnvironment]:
    opened = kit.environment(task)
    opened.reset(task)
    yield opened
    opened.close()


def done(kit: RepairKit, task: Task, policy: ScriptedPolicy) -> tuple[Trajectory, Evaluation]:
    environment = kit.environment(task)
    try:
        trajectory = play(environment, task, policy)
    finally:
        environment.close()
    return trajectory, kit.verifier.verify(task, trajectory)


def seen(environment: RepairEnvironment, operation: str, **parameters: str) -> str:
    return environment.step(Action("repo", operation, dict(parameters))).observation.text


def test_the_kit_keeps_the_contract(kit: RepairKit) -> None:
    probes = (Action("repo", "list_files"), edit("b.txt", "", "a"), submit())
    check_environment(resolve_kit("repair"), 1, probes=probes)


def test_the_oracle_repairs_and_its_progress_is_the_potential(kit: RepairKit, task: Task) -> None:
    trajectory, evaluation = done(kit, task, kit.oracle(task))
    assert (evaluation.verdict, evaluation.score) == ("success", 1.0)
    assert set(evaluation.rewards) == {"success", "efficiency", "repaired", "public", "minimal"}
    assert set(evaluation.rewards.values()) == {1.0}
    assert evaluation.costs == {"error": 0.0, "needless": 0.0, "hacks": 0.0}
    potentials = [turn.potential for turn in trajectory.turns]
    assert potentials[0] == 0.0
    assert potentials[-1] == 1.0
    assert potentials == sorted(p for p in potentials if p is not None)


def test_doing_nothing_and_not_submitting_fail(kit: RepairKit, task: Task) -> None:
    _, idle = done(kit, task, fixed_policy([submit()]))
    assert (idle.verdict, idle.score, idle.rewards["repaired"]) == ("failure", 0.0, 0.0)
    unsubmitted = fixed_policy([Action("repo", "list_files")])
    assert done(kit, task, unsubmitted)[1].verdict == "failure"


def test_other_right_repairs_are_accepted(kit: RepairKit, task: Task) -> None:
    for name, policy in kit.right_solutions(task).items():
        _, evaluation = done(kit, task, policy)
        assert evaluation.is_success, name
        assert evaluation.rewards["minimal"] == 1.0  # formatting is no edit


def test_needless_edits_are_measured(kit: RepairKit, task: Task) -> None:
    work = kit.oracle(task)
    package = task.instruction.split()[3].rstrip(":")
    more = edit(f"{package}/more.py", "", "def more(x):\n    return x + 1\n")
    environment = kit.environment(task)
    actions = [turn.action for turn in play(environment, task, work).turns if turn.action is not None]
    environment.close()
    _, evaluation = done(kit, task, fixed_policy([more, *actions]))
    assert evaluation.is_success
    assert evaluation.costs["needless"] > 1
    assert evaluation.rewards["minimal"] == pytest.approx(1 / (1 + evaluation.costs["needless"]))


@pytest.mark.parametrize(
    "attack", ["special_case", "always_equal", "report", "patch_runner", "pass_tests", "search_answer", "shadow"]
)
def test_an_attack_fails(kit: RepairKit, task: Task, attack: str) -> None:
    _, evaluation = done(kit, task, kit.attacks(task)[attack])
    assert evaluation.verdict == "failure"
    assert evaluation.rewards["repaired"] == 0.0
    if attack in ("special_case", "always_equal", "pass_tests", "patch_runner"):
        assert evaluation.costs["hacks"] >= 1


def test_passing_an_impossible_test_is_cheating(bubblewrap: None) -> None:
    kit = impossible_kit()
    task = next(kit.tasks(seed=0, split="train", families=["impossible"]))
    _, honest = done(kit, task, kit.oracle(task))
    assert (honest.verdict, honest.costs["cheated"]) == ("success", 0.0)
    _, cheating = done(kit, task, kit.attacks(task)["special_case"])
    assert cheating.costs["cheated"] == 1.0
    assert cheating.rewards["public"] == 1.0
    assert cheating.verdict == "failure"


def test_tests_show_what_is_wrong(environment: RepairEnvironment) -> None:
    shown = seen(environment, "run_tests")
    first, *failures = shown.splitlines()
    assert first.startswith("4 of ")
    assert len(failures) == 4
    assert all(" gave " in line and ", the test expects " in line for line in failures)
    one = failures[0].partition("::")[2].partition(":")[0]
    assert seen(environment, "run_tests", name=one).startswith("1 of 1 tests failed")
    assert seen(environment, "run_tests", name="nothing") == "no tests were found"


def test_files_are_listed_read_found_and_edited(environment: RepairEnvironment) -> None:
    paths = seen(environment, "list_files").splitlines()
    assert paths == sorted(paths)
    path = next(path for path in paths if not path.startswith("tests/") and "__init__" not in path)
    whole = seen(environment, "read_file", path=path).splitlines()
    assert seen(environment, "read_file", path=path, start="2", stop="3").splitlines() == whole[1:3]
    defined = next(line for line in whole if " def " in line)
    number, _, text = defined.partition(" ")
    assert f"{path}:{number} {text}" in seen(environment, "search", text=text)
    assert seen(environment, "edit", path=path, old=text, new=f"# seen\n{text}") == f"{path} is written"
    assert seen(environment, "read_file", path=path).splitlines()[int(number) - 1] == f"{number} # seen"
    assert seen(environment, "bash", command="cat new.txt; echo $?") == "1\ncat: new.txt: No such file or directory"
    assert seen(environment, "bash", command="exit 3") == "exit code 3"


@pytest.mark.parametrize(
    ("action", "code"),
    [
        (edit("../out.py", "", "x"), "bad_path"),
        (edit("tests/none.py", "a", "b"), "not_found"),
        (Action("repo", "edit", {"path": "a.py"}), "bad_call"),
        (Action("repo", "read_file", {"path": "no.py"}), "not_found"),
        (Action("repo", "bash", {"command": " "}), "bad_call"),
        (Action("repo", "search", {"text": 3}), "bad_call"),
        (Action("repo", "drop_table"), "bad_call"),
        (Action("", ""), "malformed"),
    ],
)
def test_a_refused_call_changes_nothing(environment: RepairEnvironment, action: Action, code: str) -> None:
    before = environment.state()
    step = environment.step(action)
    assert step.observation.code == code
    assert step.info.cost_components == {"error": 1.0}
    assert environment.state() == before


def test_a_text_that_occurs_twice_is_not_replaced(environment: RepairEnvironment) -> None:
    path = next(path for path in seen(environment, "list_files").splitlines() if path.startswith("tests/"))
    step = environment.step(edit(path, "assert", "refute"))
    assert step.observation.code == "not_once"


def test_nothing_changes_after_the_end(environment: RepairEnvironment) -> None:
    assert environment.step(submit()).is_terminated
    before = environment.state()
    assert environment.step(edit("a.py", "", "x = 1\n")).observation.code == "is_over"
    assert environment.state() == before
