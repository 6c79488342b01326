"""Runs that are killed at random moments end as undisturbed ones, and lose nothing that was acknowledged."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from upturn.pool import Pool
from upturn.records import Release, Usage

KILLS = 6


def contents(run_dir: Path) -> dict[str, list[Any]]:
    """All evidence in the order of arrival; measured seconds are the one thing that may differ."""
    with Pool.open(run_dir / "pool.db", read_only=True) as pool:
        experiences = [
            (each.task, replace(each.trajectory, usage=Usage()), each.evaluation)
            for each in pool.experiences(tenant="default")
        ]
        history = [state for each in pool.states(Release) for state in pool.states(Release, each.id)]
        return {
            "decisions": list(pool.decisions(tenant="default")),
            "experiences": experiences,
            "releases": history,
            "versions": pool.agent_versions(),
        }


def step_results(run_dir: Path) -> dict[str, Any]:
    events = [json.loads(line) for line in (run_dir / "journal.jsonl").read_text().splitlines()]
    return {event["step"]: event["result"] for event in events if event["event"] == "finished"}


def test_killed_run_ends_as_an_undisturbed_one(desk: ModuleType, tmp_path: Path) -> None:
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
    assert contents(shaken) == contents(calm)
    assert step_results(shaken) == step_results(calm)
    opened = [line for line in (shaken / "journal.jsonl").read_text().splitlines() if '"opened"' in line]
    assert len(opened) > 1
