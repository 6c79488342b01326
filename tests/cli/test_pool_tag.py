"""``upturn pool tag``, and what is selected and counted by tags."""

from pathlib import Path

import pytest

from tests.cli.test_pool_command import run, run_json, values
from tests.pool.conftest import build_point
from upturn.errors import UnknownNameError
from upturn.pool import Pool


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    path = tmp_path / "pool.db"
    with Pool.open(path) as pool:
        for name in ("a", "b"):
            pool.append(*build_point(name))
    return path


def test_tags_are_changed_shown_counted_and_select(filled: Path) -> None:
    printed = run_json("pool", "tag", "task-a", "trajectory-b", "--add", "vip", "--add", "new", "--pool", filled)
    assert (values(printed)["tasks"], values(printed)["added"]) == (2, 4)
    assert printed["tags"] == {"task-a": ["new", "vip"], "task-b": ["new", "vip"]}
    printed = run_json("pool", "tag", "task-b", "--remove", "new", "--why", "old", "--pool", filled)
    assert (values(printed)["removed"], printed["tags"]) == (1, {"task-b": ["vip"]})
    assert run_json("pool", "tag", "task-a", "--pool", filled)["tags"] == {"task-a": ["new", "vip"]}
    stats = run_json("pool", "stats", "--pool", filled, "--tag", "vip")
    assert [(entry["tag"], entry["trajectories"]) for entry in stats["tags"]] == [("new", 1), ("vip", 2)]
    assert values(run_json("pool", "stats", "--pool", filled, "--tag", "new"))["trajectories"] == 1
    assert values(run_json("pool", "batch", "--pool", filled, "--tag", "vip", "--tag", "new"))["points"] == 1
    assert run_json("pool", "show", "task-a", "--pool", filled)["trajectories"]["trajectory-a"]["tags"] == [
        "new",
        "vip",
    ]
    written = filled.with_name("out.jsonl")
    assert run("pool", "export", "--pool", filled, "--tag", "new", "--out", written).exit_code == 0
    assert "task-b" not in written.read_text()
    assert "vip" in run("pool", "tag", "task-b", "--pool", filled).output
    assert run("pool", "validate", "--pool", filled).exit_code in (0, 1)


def test_wrong_tags_and_tasks_are_refused(filled: Path) -> None:
    for options, message in (
        (("tag", "task-a", "--add", " "), "a tag has 1 to 64 printable characters"),
        (("tag", "task-a", "--why", "x"), "--why has no effect"),
        (("stats", "--tag", ""), "is no tag"),
        (("batch", "--tag", "a\tb"), "is no tag"),
    ):
        done = run("pool", *options, "--pool", filled)
        assert done.exit_code != 0
        assert message in " ".join((done.output + str(done.exception)).replace("│", " ").split())
    assert isinstance(run("pool", "tag", "nobody", "--pool", filled).exception, UnknownNameError)
