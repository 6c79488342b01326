"""A training run killed with SIGKILL, at whatever it was writing, ends as one that was not."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from upturn.training.runs import read_curve
from upturn.training.runs.metric import UNREPEATED
from upturn.training.runs.run_folder import CURVE_FILE, read_description, read_outcome

PROGRAM = Path(__file__).parent / "toy_killed.py"


@pytest.mark.slow
def test_a_killed_run_resumes_to_bitwise_equal_weights(tmp_path: Path) -> None:
    calm, shaken = tmp_path / "calm", tmp_path / "shaken"
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(calm), str(shaken)],
        capture_output=True,
        text=True,
        check=False,
        env=dict(os.environ, OMP_NUM_THREADS="1"),
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["killed"] >= 15
    assert report["left"][:5] == [0, 1, 2, 3, 4]
    outcome = read_outcome(calm)
    assert outcome is not None
    assert outcome.kept_units == 5
    assert outcome == read_outcome(shaken)  # with the hash of the weights
    assert read_description(calm) == read_description(shaken)
    curves = [
        [(p.units, p.steps, {k: v for k, v in p.metrics.items() if k not in UNREPEATED}) for p in read_curve(path)]
        for path in (calm / CURVE_FILE, shaken / CURVE_FILE)
    ]
    assert curves[0] == curves[1]
    assert [units for units, _, _ in curves[0]] == [0, 1, 2, 3, 4, 5]
    names = [
        sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if not path.name.startswith("events."))
        for folder in (calm, shaken)
    ]
    assert names[0] == names[1]
