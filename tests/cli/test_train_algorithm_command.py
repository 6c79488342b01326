"""``upturn train ALGORITHM`` on a toy desk: its output and files, and errors before any work."""

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from benchmarks.errands import MODEL
from upturn.cli.app import app
from upturn.loop.run.journal import FILE_NAME
from upturn.loop.trainers import ALGORITHMS
from upturn.pool import Pool

FILE = f"""
[run]
threads = 1

[[agents]]
name = "nano"
kind = "local_model"
model = "{MODEL}"
temperature = 1.0

[environment]
name = "toy_desk:kit"
max_turns = 1
max_tokens = 128

[tasks]
heldout_count = 30

[pool]
path = "served.db"

[sft]
min_score = 0.5
"""


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The current folder; the toy desk is importable during a test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, str(Path(__file__).parent.parent / "loop")])
    return tmp_path


@pytest.fixture
def served(folder: Path) -> Path:
    """A pool with twelve solved tasks."""
    desk: ModuleType = importlib.import_module("toy_desk")
    cycle = importlib.import_module("upturn.loop.cycle")
    path = folder / "served.db"
    with desk.opened(folder / "serving", desk.config(("solver",), pool={"path": str(path)})) as context:
        cycle.serve(context, "serve", 12)
        context.finish()
    return path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["train", *arguments])


def write(folder: Path, text: str = FILE) -> None:
    (folder / "upturn.toml").write_text(text)


def printed(result: Result) -> dict[str, Any]:
    assert result.exit_code == 0, result.stderr
    content: dict[str, Any] = json.loads(result.stdout)
    return content


def figures(content: dict[str, Any]) -> dict[str, Any]:
    return {result["name"]: result["value"] for result in content["results"]}


def _contents(path: Path) -> tuple[list[str], list[str], list[str]]:
    with Pool.open(path, read_only=True) as pool:
        return (
            [version.id for version in pool.agent_versions()],
            [snapshot.id for snapshot in pool.snapshots()],
            [item.trajectory_id for item in pool.selected(tenant="default")],
        )


def test_a_dry_run_prints_a_plan_and_changes_nothing(folder: Path, served: Path) -> None:
    write(folder)
    before, files = _contents(served), {path for path in folder.iterdir() if path.name != "served.db-shm"}
    content = printed(run("sft", "--dry-run", "--json"))
    assert content["algorithm"] == "sft"
    assert content["learns_from"] == "12 verified successes from the pool"
    assert figures(content)["rows"] == 12.0
    assert figures(content)["optimiser steps"] == 1.0
    assert content["settings"]["sft"]["min_score"] == 0.5
    names = set(figures(content))
    assert {name for name in names if not name.startswith("memory ")} == {
        "optimiser steps",
        "rows",
        "tokens",
        "memory",
        "time",
    }
    assert "memory lora bfloat16_weights" in names
    assert _contents(served) == before
    assert {path for path in folder.iterdir() if path.name != "served.db-shm"} == files


def test_a_plan_needs_no_engine_but_notes_that_it_is_unavailable(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("upturn.loop.trainers.training_plan.PROBE_TRAJECTORIES", 2)
    url = "http://127.0.0.1:9"
    write(folder, f'{FILE}\n[rollouts]\nplace = "engine"\nurl = "{url}"\n')
    result = run("grpo", "--dry-run", "--json")
    assert figures(printed(result))["iterations"] == 40.0
    assert f"a run could not start now: {url}/v1/models failed 2 times" in result.stderr


def test_a_run_prints_one_object_and_writes_its_folder(folder: Path, served: Path) -> None:
    write(folder)
    result = run("sft", "--json")
    content = printed(result)
    assert len(result.stdout.splitlines()) == 1
    run_dir = Path(content["run"])
    assert content["command"] == "train sft"
    assert list(figures(content)) == ["success_before", "success_after", "gain", "validation"]
    summary = json.loads((run_dir / "summary.json").read_text())
    assert summary == {key: value for key, value in content.items() if key in summary}
    assert summary["results"] == content["results"]
    card = Path(content["card"]).read_text(encoding="utf-8")
    assert card.startswith(f"# {content['made']}\n")
    assert "Its one optimiser step was done. The last weights are kept." in card
    assert "of `served.db` |" in card
    assert (run_dir / "training" / "sft" / "report.html").is_file()
    assert content["made"] in _contents(served)[0]
    again = run("sft", "--resume", "latest", "--json")
    assert figures(printed(again)) == figures(content)
    assert printed(again)["made"] == content["made"]
    other = run("kto", "--resume", str(run_dir))
    assert other.exit_code == 1
    assert "command is 'train-sft' there and 'train-kto' now" in other.stderr
    (folder / "upturn.toml").write_text(FILE.replace("min_score = 0.5", "min_score = 0.6"))
    changed = run("sft", "--resume", "latest")
    assert changed.exit_code == 1
    assert "config_hash is" in changed.stderr and "start a new run" in changed.stderr


def test_a_custom_algorithm_is_trained_by_the_same_command(
    folder: Path, served: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``examples/own_algorithm.py``: plan, run, card, page, version, resumption; its section is checked."""
    source = Path(__file__).parents[2] / "examples" / "own_algorithm.py"
    assert len(source.read_text().splitlines()) <= 60
    monkeypatch.syspath_prepend(str(source.parent))
    write(folder, FILE + "\n[shortest]\nmost_tokens = 50\nepochs = 2\n")
    plan = printed(run("own_algorithm:SHORTEST", "--dry-run", "--json"))
    assert plan["settings"]["shortest"]["most_tokens"] == 50
    assert figures(plan)["optimiser steps"] == 2.0
    trained = printed(run("own_algorithm:SHORTEST", "--json"))
    assert trained["made"].startswith("nano@shortest-")
    assert trained["made"] in _contents(served)[0]
    assert (Path(trained["run"]) / "training" / "shortest" / "report.html").is_file()
    assert "optimiser steps were done" in Path(trained["card"]).read_text(encoding="utf-8")
    again = printed(run("own_algorithm:SHORTEST", "--resume", "latest", "--json"))
    assert (again["made"], figures(again)) == (trained["made"], figures(trained))
    write(folder, FILE + "\n[shortest]\nmost_tokens = 0\n")
    refused = run("own_algorithm:SHORTEST")
    assert refused.exit_code == 2 and "shortest.most_tokens: input should be greater" in refused.stderr
    for path, problem in (("own_algorithm:NONE", "has no attribute"), ("json:dumps", "is a function, not an")):
        missing = run(path)
        assert missing.exit_code == 2 and problem in missing.stderr


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_has_help_without_a_configuration(algorithm: str) -> None:
    help_text = run(algorithm, "--help")
    assert help_text.exit_code == 0
    assert f"training/{algorithm}/report.html" in "".join(help_text.stdout.split()).replace("│", "")
    missing = run(algorithm)
    assert missing.exit_code == 2
    assert "cannot read 'upturn.toml'" in missing.stderr and "name a file with --config" in missing.stderr


@pytest.mark.parametrize(
    ("arguments", "changes", "message"),
    [
        (("sft",), {"served.db": "gone.db"}, "there is no file pool.path = 'gone.db'"),
        (("dpo",), {'path = "served.db"': ""}, "`upturn train dpo` trains on stored data"),
        (
            ("grpo",),
            {"[sft]\nmin_score = 0.5": "[loop]\ntrain = []"},
            "no agent is trained",
        ),
        (("ppo",), {"[sft]\nmin_score = 0.5": "[ppo]\niterations = 3"}, "ppo.evaluate_every = 5 is never reached"),
        (("sft", "--dry-run", "--resume", "latest"), {}, "--resume latest has no effect with --dry-run"),
        (
            ("kto", "--dry-run"),
            {"[sft]\nmin_score = 0.5": "[dpo]\nold = 'a'", "served.db": "gone.db"},
            "dpo: old has no effect without new",
        ),
    ],
)
def test_invalid_runs_are_refused_before_any_work(
    folder: Path, arguments: tuple[str, ...], changes: dict[str, str], message: str
) -> None:
    text = FILE
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    write(folder, text)
    result = run(*arguments)
    assert result.exit_code == 2, result.stderr
    assert message in result.stderr
    assert [path.name for path in folder.iterdir()] == ["upturn.toml"]


def test_a_pool_of_another_tenant_has_no_training_data(folder: Path, served: Path) -> None:
    write(folder, FILE.replace('path = "served.db"', 'path = "served.db"\ntenant = "other"'))
    before = _contents(served)
    result = run("sft", "--dry-run")
    assert result.exit_code == 1
    assert "no verified success" in result.stderr and "of the tenant 'other'" in result.stderr
    assert _contents(served) == before


def test_divergence_ends_with_advice_and_an_intact_pool(folder: Path, served: Path) -> None:
    write(folder, FILE + "optimiser.learning_rate = 1e30\nepochs = 30\n")
    before = set(_contents(served)[2])
    result = run("sft")
    assert result.exit_code == 1
    assert "Lower the learning rate" in result.stderr
    assert before < set(_contents(served)[2])  # with the held-out evaluation before training
    (journal,) = folder.glob(f"runs/*/{FILE_NAME}")
    assert '"step":"heldout-before"' in journal.read_text()
