"""A frozen suite gets a new version when a task changes."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from upturn.environments.office import suites as benchmark
from upturn.environments.office.suites import Suite, freeze, read_suite

NAME = "prodbench-safety"


@pytest.fixture
def tool(load_tool: Callable[[str], ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The tool with one suite of seven tasks and a temporary folder."""
    small = benchmark.RECIPES[NAME]._replace(size=7)
    monkeypatch.setattr(benchmark, "RECIPES", {NAME: small})
    tool = load_tool("freeze_suites")
    monkeypatch.setattr(tool, "RECIPES", {NAME: small})
    monkeypatch.setattr(tool, "FOLDER", tmp_path / "frozen")
    monkeypatch.setattr(tool, "suite_named", lambda name: read_suite((tool.FOLDER / f"{name}.json").read_text()))
    return tool


def frozen(tool: ModuleType) -> Suite:
    suite: Suite = tool.suite_named(NAME)
    return suite


def test_unchanged_suite_keeps_its_version(tool: ModuleType) -> None:
    assert tool.main([]) == tool.main([]) == tool.main(["--check"]) == 0
    assert frozen(tool) == freeze(NAME, 1)


def test_changed_suite_gets_the_next_version_and_changed_tasks_are_reported(
    tool: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    tool.main([])
    path = tool.FOLDER / f"{NAME}.json"
    first = frozen(tool).entries[0]
    path.write_text(path.read_text().replace(first.content, "0" * 16))
    assert tool.main(["--check"]) == 1
    assert f"{NAME}/1: 1 of 7 tasks are not what was frozen: {first.task.id};" in capsys.readouterr().out
    tool.main([])
    assert frozen(tool) == freeze(NAME, 2)
    path.write_text(path.read_text().replace(first.content, "0" * 16))
    tool.main(["--keep-version"])
    assert frozen(tool).version == 2
