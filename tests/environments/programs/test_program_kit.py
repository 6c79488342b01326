"""A kit of tasks for programs: its tasks, its folder, its end and its verifier."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from upturn.environments import (
    EnvironmentKit,
    Graded,
    HintedKit,
    ProgramEnd,
    ProgramEnvironment,
    Solved,
    WorkspaceLimits,
    check_environment,
    hint_of,
    oracle_of,
    play,
    program_kit,
    verify,
)
from upturn.environments.programs import ATTEMPT_PARTS, ProgramKit
from upturn.environments.validation import Plan, validate_kit
from upturn.errors import WorldError
from upturn.records import Action, Observation, Task, Trajectory, from_json, to_json


def make_sum(rng: Random, split: str) -> tuple[str, dict[str, Any], dict[str, str]]:
    numbers = [rng.randint(0, 10**6) for _ in range(3)]
    words = "Write the sum of numbers.txt into sum.txt." if split == "train" else "Add up numbers.txt in sum.txt."
    return words, {"sum": sum(numbers)}, {"numbers.txt": "\n".join(map(str, numbers)), "docs/read me.txt": "adding"}


def evaluate_sum(workspace: Path, expected: Mapping[str, Any]) -> float:
    """Half the score for a sum with surrounding text."""
    file = workspace / "sum.txt"
    text = file.read_text() if file.is_file() else ""
    return 1.0 if text == str(expected["sum"]) else 0.5 * (str(expected["sum"]) in text.split())


def sums(**options: Any) -> ProgramKit:
    return program_kit("sums", make_sum, options.pop("evaluate", evaluate_sum), oracle=solve_sum, **options)


def solve_sum(expected: Mapping[str, Any]) -> Solved:
    return Solved({"sum.txt": str(expected["sum"])})


def first_task(kit: ProgramKit, split: Any = "train") -> Task:
    return next(kit.tasks(seed=0, split=split, families=list(kit.families)))


def attempt(kit: ProgramKit, task: Task, files: Mapping[str, str], end: ProgramEnd | None = None) -> Trajectory:
    """The trajectory of a program that writes these files."""
    environment = kit.environment(task)
    environment.reset(task)
    for path, text in files.items():
        (environment.folder() / path).write_text(text)
    step = environment.finish(end or ProgramEnd("", 0))
    state = environment.state()
    environment.close()
    return Trajectory("t", task.id, "me@1", (), step.observation, "finished", "rendered", final_state=state)


def total(kit: ProgramKit, task: Task) -> str:
    environment = kit.environment(task)
    environment.reset(task)
    return str(sum(map(int, (environment.folder() / "numbers.txt").read_text().split())))


def test_the_kit_keeps_the_contract() -> None:
    kit = sums(version=3, level=2)
    assert isinstance(kit, EnvironmentKit)
    assert (kit.name, kit.families, kit.verifier.name) == ("sums", {"sums": 2}, "sums/3")
    assert isinstance(kit.environment(first_task(kit)), ProgramEnvironment)
    writes = [
        Action("files", "list"),
        Action("files", "read", {"path": "numbers.txt"}),
        Action("files", "write", {"path": "sum.txt", "text": "5"}),
        Action("files", "write", {"path": "docs/new/deep.txt", "text": "ünïcode ✓"}),
        Action("files", "delete", {"path": "numbers.txt"}),
        Action("files", "delete", {"path": "docs"}),
        Action("files", "write", {"path": "../x", "text": ""}),
        Action("files", "write", {"path": "numbers.txt/x", "text": ""}),
        Action("files", "write", {"path": "docs", "text": ""}),
        Action("files", "write", {"path": "a", "text": "x" * 200_000}),
        Action("files", "write", {"path": "a", "text": "\ud800"}),
        Action("files", "read", {"path": "/etc/passwd"}),
        Action("user", "answer", {"text": "5"}),
    ]
    check_environment(kit, 1, probes=writes)
    check_environment(kit, 1)


def test_validation_reports_floor_zero_and_ceiling_one() -> None:
    [report] = validate_kit(sums(), Plan(tasks=2, random_trajectories=2))
    assert [check for check in report.checks if check.holds is False] == []
    values = {check.name: check.value for check in report.checks}
    assert (values["oracle"], values["ceiling"], values["floor"], values["mutants"]) == (1, 1, 0, 1)
    assert (values["own delete_all"], values["own empty_all"], values["own tamper"]) == (0, 0, 0)


def test_validation_reports_what_is_not_evaluated() -> None:
    kit = program_kit("x", lambda rng: (f"do {rng.random()}", {}), lambda: None)
    [report] = validate_kit(kit, Plan(tasks=2, random_trajectories=1))
    [check] = [check for check in report.checks if check.name == "unjudged"]
    assert (check.value, check.holds) == (1, False)
    assert check.violation.endswith("the evaluation is missing: evaluate returned None")


def test_levels_are_given_for_all_families_or_by_family() -> None:
    makes = {"easy": make_sum, "hard": make_sum}
    assert program_kit("x", makes, evaluate_sum, level={"easy": 1, "hard": 3}).families == {"easy": 1, "hard": 3}
    assert program_kit("x", makes, evaluate_sum, level=2).families == {"easy": 2, "hard": 2}
    with pytest.raises(WorldError, match=r"'x' has levels of \['easy'\] and families \['easy', 'hard'\]"):
        program_kit("x", makes, evaluate_sum, level={"easy": 1})


def test_a_program_is_judged_by_what_it_leaves() -> None:
    kit = sums()
    task = first_task(kit)
    right = total(kit, task)
    evaluation = kit.verifier.verify(task, attempt(kit, task, {"sum.txt": right}))
    assert (evaluation.verdict, evaluation.score) == ("success", 1.0)
    assert evaluation.rewards == {"success": 1.0, "efficiency": 1.0, "quality": 1.0}
    assert evaluation.costs == {"error": 0.0}
    assert [(gate.name, gate.is_passed, gate.detail) for gate in evaluation.gates] == [
        ("ended", True, "finished"),
        ("right", True, "quality 1"),
    ]
    nearly = kit.verifier.verify(task, attempt(kit, task, {"sum.txt": f"it is {right}"}))
    assert (nearly.verdict, nearly.score) == ("failure", 0.5)
    cut_off = replace(attempt(kit, task, {"sum.txt": right}), outcome="time_limit")
    assert kit.verifier.verify(task, cut_off).verdict == "failure"


def test_a_stored_trajectory_gets_the_same_evaluation() -> None:
    kit = sums()
    task = first_task(kit, "heldout")
    trajectory = attempt(kit, task, {"sum.txt": total(kit, task)})
    stored = from_json(Trajectory, to_json(trajectory))
    assert sums().verifier.verify(from_json(Task, to_json(task)), stored) == kit.verifier.verify(task, trajectory)


def test_the_state_has_the_end_and_all_files() -> None:
    kit = sums()
    task = first_task(kit)
    environment = kit.environment(task)
    environment.reset(task)
    assert (environment.state()["answer"], environment.state()["exit_code"]) == (None, None)
    folder = environment.folder()
    (folder / "numbers.txt").unlink()
    (folder / "image").write_bytes(b"\xff\x00")
    (folder / "run.sh").write_text("echo")
    (folder / "run.sh").chmod(0o700)
    step = environment.finish(ProgramEnd("it is 5", 3, "x" * 5000 + "boom"))
    assert (step.is_terminated, step.is_truncated, step.reward, step.observation.is_error) == (
        True,
        False,
        0,
        False,
    )
    environment.close()
    state = environment.state()
    assert state["files"] == {
        "docs/read me.txt": {"text": "adding"},
        "image": {"base64": "/wA="},
        "run.sh": {"text": "echo", "is_executable": True},
    }
    assert (state["answer"], state["exit_code"], state["left_out"]) == ("it is 5", 3, {})
    assert len(str(state["errors"])) == 4000 and str(state["errors"]).endswith("boom")
    assert not folder.exists()


def test_a_finished_task_refuses_everything() -> None:
    kit = sums()
    task = first_task(kit)
    environment = kit.environment(task)
    environment.reset(task)
    environment.finish(ProgramEnd("first"))
    for step in (environment.finish(ProgramEnd("second")), environment.step(Action("files", "list"))):
        assert (step.observation.code, step.is_terminated, step.info.cost_components) == (
            "is_over",
            True,
            {"error": 1},
        )
    assert environment.state()["answer"] == "first"


def test_there_is_no_folder_before_reset_and_after_close() -> None:
    kit = sums()
    task = first_task(kit)
    environment = kit.environment(task)
    with pytest.raises(WorldError, match=r"'sums' has no folder: call reset\(task\) first"):
        environment.folder()
    environment.reset(task)
    first = environment.folder()
    environment.reset(task)
    assert environment.folder() != first and not first.exists()
    environment.close()
    environment.close()
    with pytest.raises(WorldError, match="has no folder"):
        environment.folder()


def test_restore_brings_back_files_and_their_mode() -> None:
    kit = sums()
    task = first_task(kit)
    environment = kit.environment(task)
    environment.reset(task)
    folder = environment.folder()
    (folder / "run.sh").write_text("echo")
    (folder / "run.sh").chmod(0o755)
    before, snapshot = environment.state(), environment.snapshot()
    (folder / "run.sh").unlink()
    (folder / "numbers.txt").write_text("1")
    (folder / "more").mkdir()
    (folder / "link").symlink_to("/etc")
    with pytest.raises(NotImplementedError, match="files that are not kept: link"):
        environment.snapshot()
    environment.restore(snapshot)
    assert environment.state() == before and environment.folder() == folder


def test_an_agent_without_a_program_reads_writes_and_answers() -> None:
    kit = sums()
    task = first_task(kit)
    oracle = oracle_of(kit, task)
    assert oracle is not None
    environment = kit.environment(task)
    trajectory = play(environment, task, oracle)
    assert trajectory.outcome == "finished"
    assert kit.verifier.verify(task, trajectory).is_success
    environment.reset(task)
    assert environment.step(Action("files", "list")).observation.text == "docs/read me.txt\nnumbers.txt"
    assert environment.step(Action("files", "read", {"path": "docs/read me.txt"})).observation.text == "adding"


def test_actions_do_not_leave_the_folder_by_a_link(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("4711")
    kit = sums()
    task = first_task(kit)
    environment = kit.environment(task)
    environment.reset(task)
    (environment.folder() / "link").symlink_to(tmp_path)
    (environment.folder() / "file").symlink_to(tmp_path / "secret.txt")
    for action in (
        Action("files", "read", {"path": "link/secret.txt"}),
        Action("files", "read", {"path": "file"}),
        Action("files", "write", {"path": "link/secret.txt", "text": "x"}),
        Action("files", "write", {"path": "link/new.txt", "text": "x"}),
        Action("files", "write", {"path": "file", "text": "x"}),
        Action("files", "delete", {"path": "link/secret.txt"}),
    ):
        step = environment.step(action)
        assert step.observation.is_error, action
        assert "4711" not in step.observation.text
    assert sorted(tmp_path.iterdir()) == [tmp_path / "secret.txt"]
    assert (tmp_path / "secret.txt").read_text() == "4711"


def test_a_hinted_environment_still_ends_with_its_program() -> None:
    kit = sums(hint=lambda expected: f"the sum is {expected['sum']}")
    task = first_task(kit)
    hint = hint_of(kit, task)
    assert hint is not None
    hinted = HintedKit(kit, {task.id: hint}).environment(task)
    assert isinstance(hinted, ProgramEnvironment)
    observation, _ = hinted.reset(task)
    assert observation.text == f"{hint}\n{task.instruction}"
    (hinted.folder() / "sum.txt").write_text(total(kit, task))
    assert hinted.finish(ProgramEnd("", 0)).is_terminated
    hinted.close()
    files: Any = hinted.state()["files"]
    assert files["sum.txt"] == {"text": total(kit, task)}


def test_evaluate_gets_what_it_names() -> None:
    seen: dict[str, Any] = {}

    def evaluate(task: Task, trajectory: Trajectory, workspace: Path, **others: Any) -> bool:
        seen.update(task=task, trajectory=trajectory, files=sorted(path.name for path in workspace.iterdir()))
        seen.update(others)
        return True

    kit = sums(evaluate=evaluate)
    task = first_task(kit)
    trajectory = attempt(kit, task, {"sum.txt": "5"})
    assert kit.verifier.verify(task, trajectory).is_success
    assert seen == {"task": task, "trajectory": trajectory, "files": ["docs", "numbers.txt", "sum.txt"]}

    def every(task, trajectory, workspace, expected, answer, exit_code, errors, left_out):  # type: ignore[no-untyped-def]
        seen.update(answer=answer, exit_code=exit_code, errors=errors, left_out=left_out)
        return False

    kit = sums(evaluate=every)
    kit.verifier.verify(task, attempt(kit, task, {}, ProgramEnd("a", 2, "b")))
    assert (seen["answer"], seen["exit_code"], seen["errors"], seen["left_out"]) == ("a", 2, "b", {})


def test_an_evaluate_with_an_unknown_parameter_is_refused() -> None:
    with pytest.raises(
        WorldError, match="evaluate of 'sums' has the parameter 'folder'; it may have any of: task, "
    ):
        sums(evaluate=lambda folder: folder is not None)

    async def later(workspace: Path) -> bool:
        return workspace.is_dir()

    with pytest.raises(WorldError, match="evaluate of 'sums' must be an ordinary function, not async"):
        sums(evaluate=later)
    assert ATTEMPT_PARTS[:3] == ("task", "trajectory", "workspace")


def judge(judged: Any) -> Any:
    kit = sums(evaluate=lambda: judged)
    task = first_task(kit)
    return verify(kit.verifier, task, attempt(kit, task, {}))


def test_a_reward_that_is_not_known_is_missing() -> None:
    evaluation = judge(None)
    assert (evaluation.verdict, evaluation.score, evaluation.rewards) == ("missing", None, {})
    assert evaluation.gates[0].detail == "evaluate returned None"
    partly = judge({"tests": 1.0, "style": None})
    assert (partly.verdict, partly.score, partly.rewards) == ("missing", None, {"tests": 1.0, "style": None})
    assert partly.gates[0].detail == "not known: style"


def test_an_exception_is_missing_and_never_zero() -> None:
    def evaluate(workspace: Path) -> bool:
        raise OSError(f"no {workspace.name[:0]}judge")

    kit = sums(evaluate=evaluate)
    task = first_task(kit)
    evaluation = verify(kit.verifier, task, attempt(kit, task, {}))
    assert (evaluation.verdict, evaluation.score) == ("missing", None)
    assert evaluation.gates[0].detail == "OSError: no judge"


def test_components_are_averaged_and_decide_together() -> None:
    evaluation = judge({"tests": True, "style": 0.5})
    assert (evaluation.verdict, evaluation.score) == ("failure", 0.75)
    assert judge({"tests": True, "style": 1.0}).is_success
    assert judge({"success": True, "style": 0.5}).is_success
    assert not judge({"success": False, "style": 1.0}).is_success


def test_gates_and_costs_of_a_judgement() -> None:
    evaluation = judge(Graded({"tests": 0.5}, gates={"compiles": True}, costs={"network": 2.0, "error": 1.0}))
    assert (evaluation.verdict, evaluation.score) == ("success", 0.5)
    assert evaluation.costs == {"network": 2.0, "error": 1.0}
    assert judge(Graded({"tests": 1.0}, gates={"compiles": False})).verdict == "failure"


@pytest.mark.parametrize(
    "wrong", [1.5, -0.1, float("nan"), "yes", {}, {"a": 2}, [1.0], Graded({"a": 1.0}, costs={"b": -1.0})]
)
def test_what_is_no_judgement_is_missing(wrong: Any) -> None:
    evaluation = judge(wrong)
    assert evaluation.verdict == "missing"
    assert evaluation.gates[0].detail.startswith("WorldError: evaluate of 'sums' ")


def test_limits_leave_files_out_by_name() -> None:
    kit = sums(limits=WorkspaceLimits(file_bytes=20), evaluate=lambda left_out: not left_out)
    task = first_task(kit)
    trajectory = attempt(kit, task, {"big.bin": "x" * 21})
    reason = str(trajectory.final_state["left_out"]["big.bin"])  # type: ignore[index, call-overload]
    assert reason.startswith("21 bytes, over 20; sha256 ") and len(reason) == len("21 bytes, over 20; sha256 ") + 64
    assert kit.verifier.verify(task, trajectory).verdict == "failure"


def test_a_state_without_a_workspace_is_not_evaluated() -> None:
    kit = sums()
    task = first_task(kit)
    empty = Trajectory("t", task.id, "me@1", (), Observation(""), "environment_error", "rendered")
    evaluation = verify(kit.verifier, task, empty)
    assert (evaluation.verdict, evaluation.score) == ("missing", None)


def test_files_of_make_must_stay_in_the_workspace() -> None:
    kit = program_kit("bad", lambda rng: ("do", {"n": rng.random()}, {"../x": "y"}), lambda answer: answer == "x")
    task = first_task(kit)
    with pytest.raises(WorldError, match=r"must be relative, without '..', such as 'src/main.py', got '../x'"):
        kit.environment(task).reset(task)
    with pytest.raises(WorldError, match="must return"):
        first_task(program_kit("bad", lambda _rng: "do", lambda: True))  # type: ignore[arg-type, return-value]
