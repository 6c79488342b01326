"""``upturn eval reverify``: equal and different evaluations, and those that cannot be repeated."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from benchmarks.errands import ENVIRONMENT, ErrandsEnvironment, ErrandsVerifier, make_task
from benchmarks.errands.baseline import do_nothing, oracle
from upturn.cli.evaluate import eval_app
from upturn.environments import oracle_of, resolve_kit, verifiers_of
from upturn.environments.scripted_policy import fixed_policy, play
from upturn.errors import UnknownNameError
from upturn.pool import Pool
from upturn.records import Action, Evaluation, Task, Trajectory

Point = tuple[Task, Trajectory, Evaluation]


def evaluated(number: int, player: Any = oracle) -> Point:
    task = make_task("mail_file", number)
    trajectory = play(ErrandsEnvironment(), task, player)
    return task, trajectory, ErrandsVerifier().verify(task, trajectory)


def write(path: Path, points: Sequence[Point], *more: Trajectory) -> Path:
    with Pool.open(path) as pool:
        pool.append(*(record for point in points for record in point), *more)
    return path


def run(path: Path, *words: str, code: int = 0) -> dict[str, Any]:
    result = CliRunner().invoke(
        eval_app, ["reverify", "--pool", str(path), "--environment", ENVIRONMENT, *words, "--json"]
    )
    assert result.exit_code == code, (result.output, result.exception)
    printed: dict[str, Any] = json.loads(result.stdout)
    return printed


def values(printed: dict[str, Any]) -> dict[str, float]:
    return {result["name"]: result["value"] for result in printed["results"]}


def test_evaluations_of_an_unchanged_verifier_are_the_same(tmp_path: Path) -> None:
    path = write(tmp_path / "pool.db", [evaluated(0), evaluated(1, do_nothing)])
    printed = run(path)
    assert printed["command"] == "eval reverify"
    assert values(printed) == {"same errands/1": 2, "differs errands/1": 0, "not_rerun": 0}
    assert printed["results"][1]["holds"] is True
    assert (printed["differing"], printed["not_rerun"]) == ([], {})


def test_a_different_evaluation_is_shown_and_exits_with_1(tmp_path: Path) -> None:
    task, trajectory, evaluation = evaluated(0)
    path = write(tmp_path / "pool.db", [(task, trajectory, replace(evaluation, score=0.5)), evaluated(1)])
    printed = run(path, code=1)
    assert values(printed) == {"same errands/1": 1, "differs errands/1": 1, "not_rerun": 0}
    assert printed["differing"] == [{"trajectory": trajectory.id, "what": "score was 0.5, is now 1.0"}]
    assert printed["results"][1]["holds"] is False


def test_evaluations_that_cannot_be_repeated_are_counted_by_reason(tmp_path: Path) -> None:
    task, trajectory, evaluation = evaluated(0)
    unknown = replace(task, id="desk/1", environment="desk")
    elsewhere = replace(trajectory, id="elsewhere", task_id="desk/1")
    older = evaluated(1)
    points = [
        (task, trajectory, evaluation),
        (unknown, elsewhere, replace(evaluation, id="e", task_id="desk/1", trajectory_id="elsewhere")),
        (*older[:2], replace(older[2], evaluator="errands/0")),
    ]
    path = write(tmp_path / "pool.db", points, replace(trajectory, id="unjudged"))
    printed = run(path)
    assert values(printed) == {"same errands/1": 1, "differs errands/1": 0, "not_rerun": 3}
    assert printed["not_rerun"] == {
        "no evaluator: no stored evaluation": 1,
        "errands/0: the current verifier of 'errands' is 'errands/1'": 1,
        "errands/1: environment 'desk' is not available": 1,
    }


def test_evaluations_of_the_office_rubric_are_repeated_too(tmp_path: Path) -> None:
    kit = resolve_kit("office")
    verifier, rubric = verifiers_of(kit)
    assert (verifier.name, rubric.name) == ("office/5", "office-rubric/2")
    points = []
    for number, evaluator in enumerate((verifier, rubric, rubric, rubric)):
        task = next(iter(kit.tasks(seed=number, split="train", families=["mail_move"])))
        trajectory = play(kit.environment(task), task, oracle_of(kit, task) or fixed_policy(()))
        points.append((task, trajectory, evaluator.verify(task, trajectory)))
    changed = replace(points[2][2], rewards={**points[2][2].rewards, "user": 0.25})
    points[2] = (*points[2][:2], changed)
    points[3] = (*points[3][:2], replace(points[3][2], evaluator="office-rubric/0"))
    printed = run(write(tmp_path / "pool.db", points), code=1)
    assert values(printed) == {
        **{"same office-rubric/2": 1, "differs office-rubric/2": 1},
        **{"same office/5": 1, "differs office/5": 0},
        "not_rerun": 1,
    }
    assert "'user': 0.25" in printed["differing"][0]["what"]
    reason = "office-rubric/0: the current verifier of 'office' is 'office/5' or 'office-rubric/2'"
    assert printed["not_rerun"] == {reason: 1}


def test_without_repeated_evaluations_nothing_was_checked(tmp_path: Path) -> None:
    path = write(tmp_path / "pool.db", [evaluated(0)])
    assert values(run(path, "--family", "call_off", code=1)) == {"not_rerun": 0}
    assert values(run(path, "--tenant", "other", code=1)) == {"not_rerun": 0}
    assert values(run(path, "--tenant", "other", "--all-tenants"))["same errands/1"] == 1
    shown = CliRunner().invoke(eval_app, ["reverify", "--pool", str(path), "--family", "call_off"])
    assert "no evaluation could be repeated" in shown.stderr


def test_custom_environments_are_given_by_import_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "desk_for_test.py").write_text(
        "from upturn.environments import one_step\n"
        "def make(rng):\n"
        "    return f'say {rng.randrange(10**6)}', {'text': 'x'}\n"
        "def kit():\n"
        "    return one_step('desk', make, lambda action, right: 'text' in action.parameters)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    kit = resolve_kit("desk_for_test:kit")
    task = next(kit.tasks(seed=0, split="train", families=["desk"]))
    trajectory = play(kit.environment(task), task, fixed_policy([Action("user", "answer", {"text": "x"})]))
    path = write(tmp_path / "pool.db", [(task, trajectory, kit.verifier.verify(task, trajectory))])
    assert values(run(path, code=1)) == {"not_rerun": 1}
    printed = run(path, "--environment", "desk_for_test:kit")
    assert values(printed) == {"same desk/1": 1, "differs desk/1": 0, "not_rerun": 0}
    result = CliRunner().invoke(eval_app, ["reverify", "--pool", str(path), "--environment", "desk_for_test:none"])
    assert isinstance(result.exception, UnknownNameError)
