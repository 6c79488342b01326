"""Runs killed at random times end like uninterrupted ones, and lose no acknowledged record."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

KILLS = 6


def test_killed_run_ends_like_an_uninterrupted_one(desk: ModuleType, evidence: ModuleType, tmp_path: Path) -> None:
    uninterrupted, killed = tmp_path / "uninterrupted" / "run", tmp_path / "killed" / "run"
    desk.whole_run(uninterrupted)
    program = [sys.executable, str(desk.__file__), str(killed), str(KILLS), "7"]
    done = subprocess.run(program, capture_output=True, text=True, check=False, env=dict(os.environ))
    assert done.returncode == 0, done.stderr
    output = json.loads(done.stdout)
    # The first half of the run lasts longer than any one delay, so at least the first two kills interrupt it.
    assert output["killed"] >= 2
    for earlier, later in zip(output["counts"], output["counts"][1:], strict=False):
        assert all(later[kind] >= count for kind, count in earlier.items())
    assert evidence.contents(killed) == evidence.contents(uninterrupted)
    assert evidence.step_results(killed) == evidence.step_results(uninterrupted)
    opened = [line for line in (killed / "journal.jsonl").read_text().splitlines() if '"opened"' in line]
    assert len(opened) > 1
