"""Whole demos as processes: killed at random moments they end as undisturbed ones, and lose nothing."""

import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import pytest

from upturn.report import ReportContent, read_content

pytestmark = pytest.mark.slow

KILLS = 10
KILLS_PER_RUN = 5
SEED = 20
NAME = "demo-20260101-000000"
PROGRAM = [sys.executable, "-c", "from upturn.cli import main; main()", "demo", "--size", "tiny"]
MEASURED = ("wall_seconds", "peak_rss_mb")
"""What a run measures of itself; everything else is decided by its seed."""


def begin(folder: Path, *arguments: str) -> "subprocess.Popen[bytes]":
    """A demo whose runs lie in ``folder/runs``."""
    with (folder / "said.txt").open("ab") as said:
        return subprocess.Popen([*PROGRAM, *arguments], cwd=folder, stdout=said, stderr=said)


def end(folder: Path, process: "subprocess.Popen[bytes]") -> None:
    assert process.wait() == 0, (folder / "said.txt").read_text()[-3000:]


def prepare(run_dir: Path) -> None:
    """A run that was killed before its first line: so that all runs have one name, which their ids contain."""
    run_dir.mkdir(parents=True)
    (run_dir / "journal.jsonl").touch()


def times_opened(run_dir: Path) -> int:
    return (run_dir / "journal.jsonl").read_text().count('"event":"opened"')


def wait_until_at_work(process: "subprocess.Popen[bytes]", run_dir: Path, opened: int) -> None:
    """Until the process has taken up the run, or has ended."""
    while process.poll() is None and times_opened(run_dir) == opened:
        time.sleep(0.02)


def without_measures(summary: dict[str, Any]) -> dict[str, Any]:
    results = [result for result in summary["results"] if result["name"] not in MEASURED]
    assert len(results) == len(summary["results"]) - len(MEASURED)
    return summary | {"results": results}


def report_without_measures(run_dir: Path) -> ReportContent:
    report = read_content(run_dir / "report.json")
    facts = replace(report.facts, wall_seconds=None, peak_rss_mb=None)
    return replace(report, facts=facts, results=tuple(each for each in report.results if each.name not in MEASURED))


def shake(evidence: ModuleType, run_dir: Path, moments: list[float]) -> int:
    """Kills the run at moments of its working time and lets it end; returns how many kills found it at work."""
    folder, killed, worked = run_dir.parent.parent, 0, 0.0
    resume = ("--resume", str(run_dir.relative_to(folder)))
    stored: dict[str, Any] = {}
    steps: dict[str, Any] = {}
    for moment in moments:
        opened = times_opened(run_dir)
        process = begin(folder, *resume)
        wait_until_at_work(process, run_dir, opened)
        time.sleep(moment - worked)
        worked = moment
        stored |= evidence.acknowledged(run_dir)
        steps |= evidence.step_results(run_dir)
        process.send_signal(signal.SIGKILL)  # no effect on a process that has ended
        if process.wait() == 0:
            break  # it was faster than the undisturbed run: nothing is left to kill
        killed += 1
        assert evidence.lost(stored, evidence.acknowledged(run_dir)) == []
        assert evidence.lost(steps, evidence.step_results(run_dir)) == []
    end(folder, begin(folder, *resume))
    assert evidence.lost(stored, evidence.acknowledged(run_dir)) == []
    assert evidence.lost(steps, evidence.step_results(run_dir)) == []
    return killed


def test_demo_killed_at_ten_random_moments_ends_as_an_undisturbed_one(evidence: ModuleType, tmp_path: Path) -> None:
    calm = tmp_path / "calm" / "runs" / NAME
    prepare(calm)
    process = begin(tmp_path / "calm", "--resume", f"runs/{NAME}")
    wait_until_at_work(process, calm, 0)
    started = time.monotonic()
    end(tmp_path / "calm", process)
    seconds = time.monotonic() - started
    summary = json.loads((calm / "summary.json").read_text())
    rng, killed, runs = Random(SEED), 0, 0
    while killed < KILLS:
        runs += 1
        assert runs <= KILLS, "most kills came after the end: the undisturbed run was far slower than the others"
        run_dir = tmp_path / f"shaken-{runs}" / "runs" / NAME
        prepare(run_dir)
        count = min(KILLS_PER_RUN, KILLS - killed)
        killed += shake(evidence, run_dir, sorted(rng.uniform(0.0, seconds) for _ in range(count)))
        found = json.loads((run_dir / "summary.json").read_text())
        assert without_measures(found) == without_measures(summary)
        assert report_without_measures(run_dir) == report_without_measures(calm)
        assert evidence.contents(run_dir) == evidence.contents(calm)
        assert evidence.step_results(run_dir) == evidence.step_results(calm)
