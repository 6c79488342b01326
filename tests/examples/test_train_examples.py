"""Every file in ``examples/train`` runs with the command in its first line, at a reduced size."""

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from upturn.loop.trainers import ALGORITHMS, check, load_full_config
from upturn.pool import Pool

EXAMPLES = Path(__file__).parents[2] / "examples" / "train"
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.toml"))
SERVES = ("serve", "serve-again")
ROUND: Mapping[str, Any] = {"iterations": 1, "evaluate_every": 1, "tasks_per_iteration": 4, "group_size": 4}
KEPT: Mapping[str, Any] = {**ROUND, "tasks_per_iteration": 24, "group_size": 8, "epochs": 1}
SMALL: Mapping[str, Mapping[str, Any]] = {
    "sft": {"epochs": 1},
    "grpo": {**ROUND, "tasks_per_iteration": 8},
    "ppo": {**ROUND, "iterations": 2, "evaluate_every": 2, "critic": {"alone_iterations": 1}},
    "dpo": {"epochs": 1},
    "online_dpo": {
        **ROUND,
        "tasks_per_iteration": 8,
        "iterations": 2,
        "evaluate_every": 2,
        "critic": {"alone_iterations": 1},
    },
    "kto": {"epochs": 1},
    "rejection": KEPT,
    "iterated": KEPT,
    "star": KEPT,
    "self_repair": KEPT,
    "rft": {"examples": 4, "seeds": 1, "iterations": 1, "tasks_per_iteration": 2, "group_size": 4},
    "world_model": {
        "iterations": 1,
        "evaluate_every": 1,
        "transitions_per_iteration": 4,
        "group_size": 2,
        "warm_up": {"epochs": 1},
    },
    "offline": {"iterations": 1, "evaluate_every": 1, "groups": 4},
    "mixture": ROUND,
    "distillation": ROUND,
}
"""Changes by section, for the sections that a file has."""


def _command(name: str) -> list[str]:
    """The command in the file's first line."""
    first = (EXAMPLES / f"{name}.toml").read_text().splitlines()[0]
    assert first.startswith("# upturn ")
    return shlex.split(first.removeprefix("# upturn "))


def _algorithm(name: str) -> str:
    return _command(name)[1]


def test_each_algorithm_has_an_example() -> None:
    assert {_algorithm(name) for name in NAMES if name not in SERVES} == set(ALGORITHMS)


@pytest.mark.parametrize("name", NAMES)
def test_the_first_line_is_a_command_with_this_file(name: str) -> None:
    command = _command(name)
    assert command[-2:] == ["--config", f"examples/train/{name}.toml"]
    assert command[:2] in ([["loop", "run"]] if name in SERVES else [["train", item] for item in ALGORITHMS])


@pytest.mark.parametrize("name", NAMES)
def test_the_file_is_a_valid_configuration(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = load_full_config(EXAMPLES / f"{name}.toml", {})
    if config.pool.path:
        Path(config.pool.path).touch()
    if name not in SERVES:
        check(config, _algorithm(name))


def test_every_pool_of_stored_data_is_filled_by_an_example() -> None:
    """``grpo`` fills the one that ``offline`` needs."""
    filled = {tomllib.loads((EXAMPLES / f"{name}.toml").read_text())["pool"]["path"] for name in (*SERVES, "grpo")}
    for name in NAMES:
        pool = tomllib.loads((EXAMPLES / f"{name}.toml").read_text()).get("pool")
        assert pool is None or pool["path"] in filled, name


def _toml(settings: Mapping[str, Any], prefix: str = "") -> str:
    """Enough TOML for these files."""
    lines = [f"{key} = {json.dumps(value)}" for key, value in settings.items() if not _is_table(value)]
    for key, value in settings.items():
        if isinstance(value, Mapping):
            lines += [f"[{prefix}{key}]", _toml(value, f"{prefix}{key}.")]
        elif _is_table(value):
            lines += [line for item in value for line in (f"[[{prefix}{key}]]", _toml(item))]
    return "\n".join(lines)


def _is_table(value: object) -> bool:
    return isinstance(value, Mapping) or (isinstance(value, list) and all(isinstance(e, Mapping) for e in value))


def _small(name: str, folder: Path) -> Path:
    settings = tomllib.loads((EXAMPLES / f"{name}.toml").read_text())
    settings["run"] = {"threads": 1}
    settings["tasks"]["heldout_count"] = 30
    if name in SERVES:
        settings["tasks"]["count"] = 150
    for section, changes in SMALL.items():
        if section in settings and name not in SERVES:
            settings[section] |= changes
    path = folder / f"{name}.toml"
    path.write_text(_toml(settings))
    return path


def _run(folder: Path, *arguments: str) -> dict[str, Any]:
    program = "import sys; from upturn.cli.app import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments, "--json"],
        cwd=folder,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{arguments}: {done.stderr}"
    content: dict[str, Any] = json.loads(done.stdout)
    return content


def _rate(folder: Path, pool: str) -> Path:
    """Ratings by the verifier's verdicts."""
    with Pool.open(folder / pool, read_only=True) as opened:
        ratings = [
            {"trajectory": stored.trajectory.id, "thumbs": 1 if stored.evaluation.verdict == "success" else -1}
            for stored in opened.experiences(tenant="default", has_tokens=False)
            if stored.evaluation is not None and stored.task.split == "train"
        ]
    path = folder / "thumbs.jsonl"
    path.write_text("\n".join(map(json.dumps, ratings)) + "\n")
    return path


@pytest.mark.slow
def test_every_example_runs_from_end_to_end_in_an_empty_folder(tmp_path: Path) -> None:
    """In the order in which they need each other's pools; each writes a version, a card and a report."""
    for name in SERVES:
        _run(tmp_path, "loop", "run", "--config", str(_small(name, tmp_path)))
    _run(tmp_path, "ingest", str(_rate(tmp_path, "served.db")), "--format", "feedback", "--pool", "served.db")
    others = [name for name in NAMES if name not in (*SERVES, "grpo")]
    for name in ("grpo", *others):
        algorithm = _algorithm(name)
        config = str(_small(name, tmp_path))
        plan = _run(tmp_path, "train", algorithm, "--config", config, "--dry-run")
        assert all(result["value"] > 0 for result in plan["results"]), name
        content = _run(tmp_path, "train", algorithm, "--config", config)
        figures = {result["name"]: result["value"] for result in content["results"]}
        assert 0 <= figures["success_after"] <= 1 and figures["validation"] in ("pass", "hold", "fail"), name
        run_dir = tmp_path / content["run"]
        assert (run_dir / "card.md").read_text(encoding="utf-8").startswith(f"# {content['made']}\n")
        assert list(run_dir.glob("training/*/report.html")), name
        assert re.fullmatch(r"nano@[a-z-]+(-true-0)?-[0-9a-f]{8}(-[0-9a-f]{8})?", content["made"]), content["made"]
