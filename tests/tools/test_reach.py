"""``tools/reach.py``: which tests need other packages, which versions they get, and when they last passed."""

import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]


@pytest.fixture
def reach(load_tool: Callable[[str], ModuleType]) -> ModuleType:
    return load_tool("reach")


def test_every_test_file_that_can_skip_for_a_package_is_run(reach: ModuleType) -> None:
    names = r"gymnasium|icalendar|openenv|openpyxl|docx|pptx|ray|trl|verifiers|xlsxwriter"
    import_of = re.compile(rf"^\s*(?:import|from) (?:{names})\b|__import__\(\"(?:{names})", re.MULTILINE)
    needing = [
        str(file.relative_to(ROOT))
        for file in sorted((ROOT / "tests").rglob("test_*.py"))
        if import_of.search(file.read_text(encoding="utf-8"))
    ]
    files = reach.test_files()
    assert needing
    assert set(needing) <= set(files)
    for folder in ("adapters", "office/files"):
        assert any(file.startswith(f"tests/environments/{folder}/") for file in files)


def test_the_lock_has_every_extra_in_a_version_that_it_allows(reach: ModuleType) -> None:
    lines = (ROOT / "requirements-reach.lock").read_text(encoding="utf-8").splitlines()
    pins = dict(line.split("==") for line in lines if not line.startswith("#"))
    versions = {canonicalize_name(name): version for name, version in pins.items()}
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "optional-dependencies"
    ]
    assert set(reach.EXTRAS) == set(extras) - {"dev", "lora", "postgres"}, "they are in requirements.lock"
    for extra in reach.EXTRAS:
        for requirement in map(Requirement, extras[extra]):
            assert requirement.specifier.contains(versions[canonicalize_name(requirement.name)]), requirement
    bench = (ROOT / "requirements-bench.lock").read_text(encoding="utf-8").splitlines()
    assert {line for line in bench if "==" in line} <= set(lines), "the same TRL and what it needs"


REPORT = """<testsuites><testsuite>
<testcase classname="tests.a" name="one"/>
<testcase classname="tests.a" name="two"><failure message="x"/></testcase>
<testcase classname="tests.b" name="three"><skipped message="the extra ray is not installed"/></testcase>
<testcase classname="tests.b" name="four"><skipped message="Ray is installed"/></testcase>
<testcase classname="tests.c" name="five"><skipped message="could not import 'peft': No module"/></testcase>
</testsuite></testsuites>"""


def test_a_test_skipped_for_a_missing_package_is_named(reach: ModuleType) -> None:
    outcome = reach.read_report(REPORT)
    assert (outcome.passed, outcome.failed) == (1, 1)
    assert outcome.missing == (
        "tests.b: the extra ray is not installed",
        "tests.c: could not import 'peft': No module",
    )


def test_the_date_replaces_the_former_one(reach: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach, "version", lambda name: f"<{name}>")
    page = "before\n\n`make test-reach` last passed on 2020-01-01: 1 test\nof more lines.\n\nafter\n"
    dated = reach.dated(page, 260, 629.6)
    assert re.fullmatch(
        r"before\n\n`make test-reach` last passed on \d{4}-\d\d-\d\d: 260 tests in 10 min 30 s with Python "
        r"3\.\d+\.\d+\.\nVersions: gymnasium <gymnasium>, .* wandb <wandb>\.\n\nafter\n",
        dated,
    )
    with pytest.raises(SystemExit, match="needs one paragraph"):
        reach.dated("nothing", 1, 1.0)


def test_the_page_states_a_date_and_make_runs_the_tool() -> None:
    page = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    assert re.search(r"^`make test-reach` last passed on \d{4}-\d\d-\d\d: \d+ tests in ", page, re.MULTILINE)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "tools/reach.py install $(REACH)" in makefile
    assert "tools/reach.py test" in makefile
