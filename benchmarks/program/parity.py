"""The same toy task for an ordinary agent and for a program: held-out success after the same training.

Both sides are ``upturn train grpo`` on the shipped model, with the same settings and seeds.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.comparison import result, spread
from benchmarks.gateway.processes import ROOT
from benchmarks.measurement import Measurement
from benchmarks.program.plan import Plan
from upturn.errors import MeasurementError
from upturn.records import JsonValue

_AGENTS = {
    "environment": '{ name = "agent", kind = "local_model", model = "nano" }',
    "program": '{ name = "agent", kind = "program", import_path = "benchmarks.program.say:act", model = "nano" }',
}
_CONFIG = """
agents = [{agent}]
environment = {{ name = "benchmarks.program.say:kit", max_turns = 1 }}
tasks = {{ count = 240, heldout_count = {heldout} }}
readiness = {{ points = 200, categories = 1 }}
run = {{ seed = {seed}, threads = {threads} }}
grpo = {{ iterations = {iterations}, evaluate_every = {iterations} }}
"""


def overlap(first: dict[str, Any], second: dict[str, Any]) -> bool:
    """Whether two figures are equal within their intervals."""
    return bool(first["low"] <= second["high"] and second["low"] <= first["high"])


def measure_parity(plan: Plan) -> Measurement:
    """Success of both, the seeds at which their intervals do not overlap, and those with equal weights."""
    success: dict[str, list[float]] = {side: [] for side in _AGENTS}
    before: dict[str, list[float]] = {side: [] for side in _AGENTS}
    apart = equal = 0
    for seed in range(plan.seeds):
        runs = {side: _train(plan, side, seed) for side in _AGENTS}
        figures = {side: {row["name"]: row for row in run["results"]} for side, run in runs.items()}
        equal += len({run["made"] for run in runs.values()}) == 1
        for side, rows in figures.items():
            success[side].append(float(rows["success_after"]["value"]))
            before[side].append(float(rows["success_before"]["value"]))
        apart += not overlap(*(rows["success_after"] for rows in figures.values()))
    details: dict[str, JsonValue] = {
        side: {"before": [*before[side]], "after": [*success[side]]} for side in _AGENTS
    }
    return Measurement(
        (
            *(result(f"success_{side}", spread(values), "share") for side, values in success.items()),
            result("seeds_with_equal_weights", float(equal), "seeds"),
            result("seeds_apart", float(apart), "seeds", plan.bar(0.0, is_upper=True)),
        ),
        details,
    )


def _train(plan: Plan, side: str, seed: int) -> dict[str, Any]:
    """What a training run prints; ``made`` is a version that is named by the hash of its weights."""
    plan.log(f"parity: {side}, seed {seed}")
    with tempfile.TemporaryDirectory(prefix="upturn-parity-") as folder:
        config = Path(folder) / "upturn.toml"
        text = _CONFIG.format(
            agent=_AGENTS[side], heldout=plan.heldout, seed=seed, threads=plan.threads, iterations=plan.iterations
        )
        config.write_text(text, encoding="utf-8")
        command = [sys.executable, "-c", "from upturn.cli import main; main()", "train", "grpo", "--json"]
        paths = os.pathsep.join((str(ROOT / "src"), str(ROOT)))
        ended = subprocess.run(
            command, cwd=folder, capture_output=True, check=False, env={**os.environ, "PYTHONPATH": paths}
        )
    if ended.returncode != 0:
        raise MeasurementError(f"training failed: {ended.stderr.decode(errors='replace')[-1_000:]}")
    printed: dict[str, Any] = json.loads(ended.stdout)
    return printed
