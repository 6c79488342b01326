"""``upturn eval reverify``: judgements made again, those that differ, and those that cannot be made."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from benchmarks.errands import ENVIRONMENT, ErrandsEnvironment, ErrandsVerifier, make_task
from benchmarks.errands.baseline import nothing, oracle
from upturn.cli.evaluate import eval_app
from upturn.environments import oracle_of, resolve_kit, verifiers_of
from upturn.environments.scripted_policy import fixed_policy, play
from upturn.errors import UnknownNameError
from upturn.pool import Pool, PoolBatch
from upturn.records import Action, Evaluation, Task, Trajectory

Point = tuple[Task, Trajectory, Evaluation]


def judged(number: int, player: Any = oracle) -> Point:
    task = make_task("mail_file", number)
    trajectory = play(ErrandsEnvironment(), task, player)
    return task, trajectory, ErrandsVerifier().verify(task, trajectory)


def write(path: Path, points: Sequence[Point], *more: Trajectory) -> Path:
    with Pool.open(path) as pool:
        batch = PoolBatch(
            tasks=[task for task, _, _ in points],
            trajectories=[*(trajectory for _, trajectory, _ in points), *more],
            evaluations=[evaluation for _, _, evaluation in points],
        )
        pool.append(batch)
    return path


def run(path: Path, *words: str, code: int = 0) -> dict[str, Any]:
    found = CliRunner().invoke(
        eval_app, ["reverify", "--pool", str(path), "--environment", ENVIRONMENT, *words, "--json"]
    )
    assert found.exit_code == code, (found.output, found.exception)
    printed: dict[str, Any] = json.loads(found.stdout)
    return printed


def values(printed: dict[str, Any]) -> dict[str, float]:
    return {result["name"]: result["value"] for result in printed["results"]}


def test_judgements_of_an_unchanged_verifier_are_the_same(tmp_path: Path) -> None:
    path = write(tmp_path / "pool.db", [judged(0), judged(1, nothing)])
    printed = run(path)
    assert printed["command"] == "eval reverify"
    assert values(printed) == {"same errands/1": 2, "differs errands/1": 0, "not_rerun": 0}
    assert printed["results"][1]["holds"] is True
    assert (printed["differing"], printed["not_rerun"]) == ([], {})


def test_a_judgement_that_differs_is_named_and_exit_code_1(tmp_path: Path) -> None:
    task, trajectory, evaluation = judged(0)
    path = write(tmp_path / "pool.db", [(task, trajectory, replace(evaluation, score=0.5)), judged(1)])
    printed = run(path, code=1)
    assert values(printed) == {"same errands/1": 1, "differs errands/1": 1, "not_rerun": 0}
    assert printed["differing"] == [{"trajectory": trajectory.id, "what": "score was 0.5, is 1.0"}]
    assert printed["results"][1]["holds"] is False


def test_what_cannot_be_judged_again_is_counted_by_its_reason(tmp_path: Path) -> None:
    task, trajectory, evaluation = judged(0)
    unknown = replace(task, id="desk/1", environment="desk")
    elsewhere = replace(trajectory, id="elsewhere", task_id="desk/1")
    older = judged(1)
    points = [
        (task, trajectory, evaluation),
        (unknown, elsewhere, replace(evaluation, id="e", task_id="desk/1", trajectory_id="elsewhere")),
        (*older[:2], replace(older[2], evaluator="errands/0")),
    ]
    path = write(tmp_path / "pool.db", points, replace(trajectory, id="unjudged"))
    printed = run(path)
    assert values(printed) == {"same errands/1": 1, "differs errands/1": 0, "not_rerun": 3}
    assert printed["not_rerun"] == {
        "nobody: it was never judged": 1,
        "errands/0: the verifier of 'errands' is 'errands/1' now": 1,
        "errands/1: there is no environment 'desk' here": 1,
    }


def test_judgements_by_the_office_s_rubric_are_made_again_too(tmp_path: Path) -> None:
    kit = resolve_kit("office")
    own, rubric = verifiers_of(kit)
    assert (own.name, rubric.name) == ("office/4", "office-rubric/1")
    points = []
    for number, verifier in enumerate((own, rubric, rubric, rubric)):
        task = next(iter(kit.tasks(seed=number, split="train", families=["mail_move"])))
        trajectory = play(kit.environment(task), task, oracle_of(kit, task) or fixed_policy(()))
        points.append((task, trajectory, verifier.verify(task, trajectory)))
    changed = replace(points[2][2], rewards={**points[2][2].rewards, "user": 0.25})
    points[2] = (*points[2][:2], changed)
    points[3] = (*points[3][:2], replace(points[3][2], evaluator="office-rubric/0"))
    printed = run(write(tmp_path / "pool.db", points), code=1)
    assert values(printed) == {
        **{"same office-rubric/1": 1, "differs office-rubric/1": 1},
        **{"same office/4": 1, "differs office/4": 0},
        "not_rerun": 1,
    }
    assert "'user': 0.25" in printed["differing"][0]["what"]
    why = "office-rubric/0: the verifier of 'office' is 'office/4' or 'office-rubric/1' now"
    assert printed["not_rerun"] == {why: 1}


def test_where_nothing_could_be_judged_again_nothing_was_checked(tmp_path: Path) -> None:
    path = write(tmp_path / "pool.db", [judged(0)])
    assert values(run(path, "--family", "call_off", code=1)) == {"not_rerun": 0}
    assert values(run(path, "--tenant", "other", code=1)) == {"not_rerun": 0}
    assert values(run(path, "--tenant", "other", "--all-tenants"))["same errands/1"] == 1
    shown = CliRunner().invoke(eval_app, ["reverify", "--pool", str(path), "--family", "call_off"])
    assert "no judgement could be made again" in shown.stderr


def test_environments_of_ones_own_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    found = CliRunner().invoke(eval_app, ["reverify", "--pool", str(path), "--environment", "desk_for_test:none"])
    assert isinstance(found.exception, UnknownNameError)
