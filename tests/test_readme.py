"""The README shows the files of examples/own_agent, they work as described, and links between pages resolve."""

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib import import_module
from itertools import islice
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import pytest

from upturn.environments import check_environment, resolve_kit
from upturn.loop.cycle import check_readiness, serve
from upturn.loop.progress import NoProgress
from upturn.loop.run.context import open_run
from upturn.loop.trainers import load_full_config
from upturn.loop.trainers.algorithms.sft import take_training_snapshot
from upturn.loop.trainers.pool_data import load_demonstrations
from upturn.models import read_call
from upturn.records import Action, Observation, Split

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
LOOP_PAGE = (ROOT / "docs" / "loop.md").read_text(encoding="utf-8")
LINES = 25
"""Limit for Python and configuration together, without empty lines."""


def code_blocks(language: str, page: str = README) -> list[str]:
    """The page's code blocks in this language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page, flags=re.DOTALL | re.MULTILINE)


PROGRAM, DESK = code_blocks("python")
(CONFIGURATION,) = code_blocks("toml")
FILES = {"desk.py": DESK, "upturn.toml": CONFIGURATION}


def test_the_program_is_that_of_the_example() -> None:
    source = (ROOT / "examples" / "programs" / "first" / "agent.py").read_text(encoding="utf-8")
    page = (ROOT / "docs" / "programs.md").read_text(encoding="utf-8")
    assert source.endswith(f"\n\n{PROGRAM}")
    assert source.endswith(f"\n\n{code_blocks('python', page)[0]}")
    toml = (ROOT / "examples" / "programs" / "first" / "upturn.toml").read_text(encoding="utf-8")
    assert tomllib.loads(toml) == tomllib.loads(code_blocks("toml", page)[0])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the two files only, on Python's import path."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("desk", None)


@pytest.fixture
def desk(folder: Path) -> ModuleType:
    return import_module("desk")


def test_readme_shows_the_files_of_the_example() -> None:
    assert {path.name for path in (ROOT / "examples/own_agent").iterdir() if path.is_file()} == set(FILES)
    for name, text in FILES.items():
        assert (ROOT / "examples/own_agent" / name).read_text(encoding="utf-8") == text


def test_example_is_about_twenty_lines() -> None:
    assert sum(bool(line.strip()) for text in FILES.values() for line in text.splitlines()) <= LINES


def test_environment_keeps_the_contract_and_grades_actions(desk: ModuleType) -> None:
    kit = resolve_kit("desk:kit")
    check_environment(kit, 20)
    for split in ("train", "heldout"):
        _, expected = desk.make(Random(1), split)
        assert desk.check(Action("desk", "file_all", expected), expected)
        assert not desk.check(Action("desk", "file_all", {**expected, "folder": "attic"}), expected)
        assert not desk.check(Action("desk", "file_one", expected), expected)
        assert not desk.check(Action("user", "refuse"), expected)


def rule_results(desk: ModuleType, split: Split) -> dict[str, bool]:
    """Whether the rule solves an instruction, for the instructions of 300 tasks."""
    results = {}
    for task in islice(desk.kit.tasks(seed=0, split=split, families=["desk"]), 300):
        action = read_call(desk.rule(task.instruction, (), Observation(task.instruction)))
        assert action is not None
        person, folder = re.findall(rf"\b(?:{'|'.join(desk.PEOPLE + desk.FOLDERS)})\b", task.instruction)
        results[task.instruction] = desk.check(action, {"from": person, "folder": folder})
    return results


def test_rule_solves_one_of_the_three_wordings_and_no_held_out_one(desk: ModuleType) -> None:
    train, heldout = rule_results(desk, "train"), rule_results(desk, "heldout")
    assert {instruction for instruction, is_solved in train.items() if is_solved} == {
        instruction for instruction in train if instruction.startswith("file everything from")
    }
    assert 0.25 < sum(train.values()) / len(train) < 0.42
    assert not any(heldout.values())
    assert not train.keys() & heldout.keys()


def test_serving_the_tasks_gives_enough_demonstrations(desk: ModuleType, folder: Path) -> None:
    config = load_full_config(folder / "upturn.toml", {})
    with open_run(config, folder / "runs" / "loop-test", "loop run", NoProgress()) as context:
        serve(context, "serve", config.tasks.count)
        assert check_readiness(context, "readiness").is_ready
        demonstrations = load_demonstrations(context, take_training_snapshot(context))
        decisions = list(context.pool.decisions(tenant="default"))
    assert {decision.chosen for decision in decisions} == {"nano@base", "rule@base"}
    assert len(decisions) == config.tasks.count
    assert len(demonstrations) >= 40
    assert {demonstration.agent_version for demonstration in demonstrations} == {
        "rule@base"
    }  # nano has never seen it


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives the page's headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_resolve(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.slow
def test_example_run_improves_and_releases_the_model(folder: Path) -> None:
    command = re.findall(
        r"^\$ \.venv/bin/(upturn loop run) --config examples/own_agent/(\S+)$", README, re.MULTILINE
    )
    assert command == [("upturn loop run", "upturn.toml")]
    program = [str(Path(sys.executable).parent / "upturn"), *command[0][0].split()[1:], "--json"]
    done = subprocess.run(program, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    output: dict[str, Any] = json.loads(done.stdout)
    results = {result["name"]: result for result in output["results"]}
    assert results["cycle_1_gain"]["low"] > 0
    assert results["cycle_1_validation"]["value"] == "pass"
    assert results["cycle_1_release"]["value"] == "promoted"
    for name in ("cycle_1_success_before", "cycle_1_success_after"):
        [shown] = re.findall(rf"^{name} +(\S+) share", README, flags=re.MULTILINE)
        assert results[name]["value"] == pytest.approx(float(shown), abs=0.05), "the README shows other results"
    run_dir = folder / output["run"]
    events = [json.loads(line) for line in (run_dir / "journal.jsonl").read_text(encoding="utf-8").splitlines()]
    names = {event["step"].removeprefix("cycle-1/") for event in events if event["event"] == "finished"}
    names |= {name.removeprefix("cycle_1_") for name in results}
    names |= {path.name for path in run_dir.iterdir() if not path.name.startswith("pool.db")}
    assert [name for name in sorted(names) if name not in LOOP_PAGE] == []
