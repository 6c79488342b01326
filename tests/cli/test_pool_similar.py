"""``upturn pool similar`` on the small τ-bench file."""

from dataclasses import replace
from pathlib import Path

from tests.cli.test_pool_command import TAU, run, run_json, values
from tests.pool.conftest import build_point
from upturn.pool import Pool


def test_similar_successes_are_listed_and_can_be_shown(tmp_path: Path) -> None:
    path = tmp_path / "pool.db"
    assert run("ingest", TAU, "--format", "tau-bench", "--pool", path).exit_code == 0
    for name, instruction in (("a", "Move the mail of ada@corp.de."), ("b", "Move a mail."), ("c", "Sum sales.")):
        with Pool.open(path) as pool:
            task, trajectory, evaluation = build_point(name)
            pool.append(replace(task, instruction=instruction), trajectory, evaluation)
    printed = run_json("pool", "similar", "move the mail", "--pool", path, "--k", 2, "--family", "mail")
    assert [item["trajectory_id"] for item in printed["similar"]] == ["trajectory-a", "trajectory-b"]
    assert printed["similar"][0]["instruction"] == "Move the mail of <EMAIL>."
    assert values(printed)["instructions"] == 3
    assert run("pool", "show", printed["similar"][0]["trajectory_id"], "--pool", path).exit_code == 0
    shown = run("pool", "similar", "--task", "task-b", "--pool", path)
    assert shown.exit_code == 0, shown.output
    assert "trajectory-b" not in shown.output
    assert run("pool", "similar", "xyzzy", "--pool", path).exit_code == 1


def test_a_text_or_a_task_is_needed(tmp_path: Path) -> None:
    for arguments in ((), ("move", "--task", "a")):
        done = run("pool", "similar", *arguments, "--pool", tmp_path / "none.db")
        assert done.exit_code == 2
        assert "either a TEXT or a --task" in " ".join(done.output.replace("│", " ").split())
