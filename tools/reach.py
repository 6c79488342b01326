"""The environment and the tests of ``make test-reach``: what needs file formats, other frameworks or Ray.

    python tools/reach.py install .venv-reach    installs requirements-reach.lock above the current environment
    python tools/reach.py test                   runs the tests and writes the date into docs/results.md

The tests are those of every test file that skips where a package or the environment of the gateway's clients is not
installed, the slow ones included. A test that is skipped because a package is missing is a failure here.
"""

import platform
import re
import subprocess
import sys
import sysconfig
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple
from xml.etree import ElementTree as ET

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements-reach.lock"
PAGE = ROOT / "docs" / "results.md"
EXTRAS = (
    "bench",
    "diff",
    "files",
    "grammar",
    "gymnasium",
    "mlflow",
    "openenv",
    "otel",
    "parquet",
    "quantised",
    "ray",
    "trackio",
    "verifiers",
    "wandb",
)
SHOWN = (
    "gymnasium",
    "icalendar",
    "mlflow-skinny",
    "openenv-core",
    "openpyxl",
    "python-docx",
    "python-pptx",
    "ray",
    "trackio",
    "tree-sitter",
    "trl",
    "verifiers",
    "wandb",
)
"""Packages whose versions are written with the date."""
_CONDITION = re.compile(r"\b(importorskip|find_spec)\(|\bneeds_clients\b")
_LINE = re.compile(r"^`make test-reach` last passed .*(?:\n(?!\n).*)*", re.MULTILINE)


class Outcome(NamedTuple):
    """The tests of a report."""

    passed: int
    failed: int
    missing: tuple[str, ...]
    """Reasons of tests that were skipped because a package is not installed."""


def test_files(root: Path = ROOT) -> list[str]:
    """Returns the test files that need packages, relative to ``root``."""
    files = sorted((root / "tests").rglob("test_*.py"))
    return [str(file.relative_to(root)) for file in files if _CONDITION.search(file.read_text(encoding="utf-8"))]


def install(folder: Path) -> None:
    """Adds this interpreter's packages to the other environment's path, then installs the lock there."""
    python = folder / "bin" / "python"
    command = [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    packages = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    Path(packages, "base.pth").write_text(f"{sysconfig.get_path('purelib')}\n", encoding="utf-8")
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "--no-deps", "-r", str(LOCK)]
    subprocess.run(pip, check=True)


def run_tests() -> int:
    """Runs the tests with this interpreter; returns the exit code. Writes the date if all passed."""
    started = time.monotonic()
    with TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-m", "", "-rs", f"--junitxml={report}", *test_files()]
        code = subprocess.run(command, check=False, cwd=ROOT).returncode
        if not report.exists():
            return code or 1
        outcome = read_report(report.read_text(encoding="utf-8"))
    for reason in outcome.missing:
        print(f"not run: {reason}")
    if code or outcome.failed or outcome.missing:
        return code or 1
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(dated(page, outcome.passed, time.monotonic() - started), encoding="utf-8")
    print(f"wrote the date into {PAGE.relative_to(ROOT)}")
    return 0


def read_report(xml: str) -> Outcome:
    """Returns the outcome in a report in JUnit's format."""
    passed = failed = 0
    missing = []
    for case in ET.fromstring(xml).iter("testcase"):
        skipped = case.find("skipped")
        if skipped is not None:
            reason = skipped.get("message", "")
            if "not installed" in reason or "could not import" in reason:
                missing.append(f"{case.get('classname')}: {reason}")
        elif case.find("failure") is not None or case.find("error") is not None:
            failed += 1
        else:
            passed += 1
    return Outcome(passed, failed, tuple(missing))


def dated(page: str, passed: int, seconds: float) -> str:
    """Returns the page with today's date, number of tests and versions in its sentence about these tests."""
    minutes, rest = divmod(round(seconds), 60)
    versions = ", ".join(f"{name} {version(name)}" for name in SHOWN)
    today = datetime.now(UTC).date().isoformat()
    line = (
        f"`make test-reach` last passed on {today}: {passed} tests in {minutes} min {rest} s with Python "
        f"{platform.python_version()}.\nVersions: {versions}."
    )
    if len(_LINE.findall(page)) != 1:
        raise SystemExit(f"{PAGE} needs one paragraph that starts with '`make test-reach` last passed'")
    return _LINE.sub(lambda _: line, page)


def main(arguments: Sequence[str]) -> int:
    """Runs the command; returns the exit code."""
    match arguments:
        case ["install", folder]:
            install(Path(folder))
            return 0
        case ["test"]:
            return run_tests()
    print(__doc__)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
