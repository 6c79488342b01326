"""The five minutes of docs/gateway.md: its commands, run against a server without a configuration."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.running import running

PAGE = Path(__file__).resolve().parents[2] / "docs" / "gateway.md"
RUN_HERE = "<!-- not run: tests/gateway/test_walkthrough.py runs it -->"


def commands() -> list[str]:
    pattern = re.compile(re.escape(RUN_HERE) + r"\n```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    return [match[1] for match in pattern.finditer(PAGE.read_text(encoding="utf-8"))]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """The address of ``upturn up`` in an empty folder."""
    with running(tmp_path) as address:
        yield address


def candidates(state: dict[str, Any]) -> dict[str, Any]:
    return {entry["version"]: entry for entry in state["families"][0]["candidates"]}


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_a_call_and_a_feedback_change_the_posterior(server: str, tmp_path: Path) -> None:
    start, call, feedback, state = commands()
    assert start.strip() == ".venv/bin/upturn up"
    steps = (
        call.replace("curl -s -D", "curl -s -o answer.json -D"),
        f"{state.strip()} > before.json",
        feedback,
        f"{state.strip()} > after.json",
    )
    script = "\n".join(steps).replace("http://127.0.0.1:8000", server)
    done = subprocess.run(["sh", "-e", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    headers = dict(re.findall(r"^(x-upturn-[\w-]+): (\S+)", done.stdout, re.MULTILINE))
    answer, before, after = (
        json.loads((tmp_path / name).read_text()) for name in ("answer.json", "before.json", "after.json")
    )
    version = headers["x-upturn-agent-version"]
    assert answer["id"] == headers["x-upturn-decision"]
    assert float(headers["x-upturn-propensity"]) == 0.5
    assert '"state":"stored"' in done.stdout
    other = next(name for name in candidates(after) if name != version)
    assert candidates(before)[version]["belief"]["mean"] == 0.5
    assert candidates(after)[version]["belief"]["mean"] == pytest.approx(0.77, abs=0.005)
    assert candidates(after)[other]["belief"]["mean"] == pytest.approx(0.69, abs=0.005)
    assert candidates(after)[version]["probability"] == pytest.approx(0.61, abs=0.005)
