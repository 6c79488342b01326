"""A backup restores to the same rows of all tables."""

from pathlib import Path

from tests.cli.test_pool_command import CHATS, run, run_json
from tests.cli.test_pool_isolation import fill
from upturn.pool import Pool
from upturn.pool.access import current_policy


def test_a_drill_restores_the_rows_of_all_tables(tmp_path: Path) -> None:
    path = tmp_path / "pool.db"
    fill(path)  # with quarantined lines, contents of calls, a snapshot and a policy
    assert run("ingest", CHATS, "--format", "chat", "--pool", path).exit_code == 0
    assert run("pool", "tag", "task-a", "--add", "seen", "--pool", path).exit_code == 0
    drilled = run_json("pool", "drill", "--pool", path, "--folder", tmp_path)
    assert drilled["problems"] == []
    rows = {name for name, count in drilled["rows_by_table"].items() if count}
    assert {
        "tasks", "decisions", "calls", "call_contents", "trajectories", "evaluations", "feedback", "snapshots",
        "imports", "quarantine", "places", "points", "strata", "admin_acts", "audit_entries",
    } <= rows  # fmt: skip
    restored = run_json("pool", "restore", path, "--pool", tmp_path / "again.db")
    assert restored["root"] == drilled["root"]
    with Pool.open(tmp_path / "again.db", read_only=True) as pool:
        assert current_policy(pool.engine, tenant="hidden").anonymise == "write"
