"""``upturn eval audit`` on a made-up training run that farmed a component."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from upturn.cli.app import app
from upturn.pool import Pool, PoolSink
from upturn.records import Evaluation, Observation, Task, Trajectory


def _finished(number: int, polite: float) -> tuple[Task, Trajectory, Evaluation]:
    task = Task(f"task-{number}", "do it", "mail", "desk")
    trajectory = Trajectory(f"t{number}", task.id, "a@1", (), Observation(""), "finished", "rendered")
    rewards: dict[str, float | None] = {"success": 0.5 + 0.01 * (number % 2), "polite": polite}
    return (
        task,
        trajectory,
        Evaluation(f"v{number}", task.id, f"t{number}", "d/1", "success", (), rewards, {}, None),
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six iterations of four rollouts, and two held-out evaluations of equal score."""
    run = tmp_path_factory.mktemp("runs") / "train-grpo-1"
    training = run / "training" / "grpo"
    training.mkdir(parents=True)
    (run / "config.json").write_text(
        json.dumps({"rewards": {"weights": {"success": 1.0, "polite": "essential"}}, "pool": {}})
    )
    points = [{"units": units, "steps": 0, "score": 0.5, "score_low": 0.4, "score_high": 0.6} for units in (0, 6)]
    (training / "curve.jsonl").write_text("".join(f"{json.dumps(point)}\n" for point in points))
    with Pool.open(run / "pool.db") as pool:
        for iteration in range(6):
            finished = [_finished(4 * iteration + index, 0.15 * iteration + 0.01 * index) for index in range(4)]
            PoolSink(pool).append("train-grpo-1/grpo", iteration, finished)
    return training


def test_a_farmed_component_is_named(folder: Path) -> None:
    ran = CliRunner().invoke(app, ["eval", "audit", str(folder), "--json"])
    results = {result["name"]: result for result in json.loads(ran.stdout)["results"]}
    assert ran.exit_code == 1
    assert "the reward rose and held-out quality did not; the largest contribution has 'polite'" in ran.stderr
    assert results["finding"]["value"] == "diverged"
    assert results["polite: contribution"]["value"] == pytest.approx(0.15 * 4 / 2)
    assert results["held-out quality: change"]["value"] == 0.0
    assert list(results).index("polite: change") < list(results).index("success: change")


def test_other_folders_tenants_and_pools_are_refused(folder: Path, tmp_path: Path) -> None:
    runner, pool = CliRunner(), str(folder.parent.parent / "pool.db")
    refused = [
        (str(tmp_path), (), "is not the folder of a training run"),
        (str(folder), ("--tenant", "other"), "has no rollouts of the run 'train-grpo-1/grpo' for this tenant"),
        (str(folder.parent / "sft"), (), "has no rollouts of the run 'train-grpo-1/sft'"),
    ]
    for path, options, message in refused:
        ran = runner.invoke(app, ["eval", "audit", path, "--pool", pool, *options])
        assert ran.exit_code == 1
        assert message in ran.stderr
