"""Runs that are killed at random moments end as undisturbed ones, and lose nothing that was acknowledged."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

KILLS = 6


def test_killed_run_ends_as_an_undisturbed_one(desk: ModuleType, evidence: ModuleType, tmp_path: Path) -> None:
    calm, shaken = tmp_path / "calm" / "run", tmp_path / "shaken" / "run"
    desk.whole_run(calm)
    program = [sys.executable, str(desk.__file__), str(shaken), str(KILLS), "7"]
    done = subprocess.run(program, capture_output=True, text=True, check=False, env=dict(os.environ))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    # The first half of the run lasts longer than any one delay, so at least the first two kills hit it at work.
    assert found["killed"] >= 2
    for earlier, later in zip(found["counts"], found["counts"][1:], strict=False):
        assert all(later[kind] >= count for kind, count in earlier.items())
    assert evidence.contents(shaken) == evidence.contents(calm)
    assert evidence.step_results(shaken) == evidence.step_results(calm)
    opened = [line for line in (shaken / "journal.jsonl").read_text().splitlines() if '"opened"' in line]
    assert len(opened) > 1
