"""Whole demos as processes: killed at random times they end like uninterrupted ones, and lose nothing."""

import json
import signal
import subprocess
import sys
import time
from bisect import bisect
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from upturn.report import ReportContent, read_content

pytestmark = pytest.mark.slow

KILLS = 10
KILLS_PER_RUN = 5
SEED = 20
NAME = "demo-20260101-000000"
PROGRAM = [sys.executable, "-c", "from upturn.cli import main; main()", "demo", "--size", "tiny"]
MEASURED = ("wall_seconds", "peak_rss_mb")
"""Measured results; all others are determined by the seed."""


def start(folder: Path, *arguments: str) -> "subprocess.Popen[bytes]":
    """Starts a demo with its runs in ``folder/runs``."""
    with (folder / "output.txt").open("ab") as output:
        return subprocess.Popen([*PROGRAM, *arguments], cwd=folder, stdout=output, stderr=output)


def wait(folder: Path, process: "subprocess.Popen[bytes]", *, code: int = 0) -> None:
    assert process.wait() == code, (folder / "output.txt").read_text()[-3000:]


def prepare(run_dir: Path) -> None:
    """Creates an empty run, so that all runs have the same name, which their ids contain."""
    run_dir.mkdir(parents=True)
    (run_dir / "journal.jsonl").touch()


def events(run_dir: Path) -> list[dict[str, Any]]:
    """The journal's events, without an incomplete last line."""
    return [json.loads(line) for line in (run_dir / "journal.jsonl").read_text().split("\n")[:-1]]


class Moment(NamedTuple):
    """A point in a run's time, relative to its steps, since a resumed run does not start at zero."""

    steps: int
    """Number of started steps; 0 = before the first."""
    seconds: float
    """Since the last of them started, or since the run was opened."""


def times(run_dir: Path) -> list[datetime]:
    """Times at which the run was opened and its steps started."""
    stamps = [event["at"] for event in events(run_dir) if event["event"] in ("opened", "started")]
    return [datetime.fromisoformat(stamp) for stamp in stamps]


def moment_of(uninterrupted: Path, seconds: float) -> Moment:
    """The moment this many seconds after the uninterrupted run was opened."""
    since = [(moment - times(uninterrupted)[0]).total_seconds() for moment in times(uninterrupted)]
    steps = bisect(since, seconds) - 1
    return Moment(steps, seconds - since[steps])


def wait_for(process: "subprocess.Popen[bytes]", run_dir: Path, moment: Moment, lines: int) -> None:
    """Waits until the process reaches the moment, or ends; ``lines``: number written by earlier processes."""
    while process.poll() is None:
        journal = events(run_dir)
        new = [event["event"] for event in journal[lines:]]
        reached = len({event["step"] for event in journal if event["event"] == "started"})
        if reached >= moment.steps and ("started" in new or (moment.steps == 0 and "opened" in new)):
            time.sleep(moment.seconds)
            return
        time.sleep(0.02)


def without_measures(summary: dict[str, Any]) -> dict[str, Any]:
    results = [result for result in summary["results"] if result["name"] not in MEASURED]
    assert len(results) == len(summary["results"]) - len(MEASURED)
    return summary | {"results": results}


def report_without_measures(run_dir: Path) -> ReportContent:
    report = read_content(run_dir / "report.json")
    facts = replace(report.facts, wall_seconds=None, peak_rss_mb=None)
    return replace(
        report, facts=facts, results=tuple(result for result in report.results if result.name not in MEASURED)
    )


def kill_at(evidence: ModuleType, run_dir: Path, moments: list[Moment]) -> int:
    """Kills the run at the moments, then finishes it; returns the number of kills that interrupted it."""
    folder, killed = run_dir.parent.parent, 0
    resume = ("--resume", str(run_dir.relative_to(folder)))
    stored: dict[str, Any] = {}
    steps: dict[str, Any] = {}
    for moment in moments:
        lines = len(events(run_dir))
        process = start(folder, *resume)
        wait_for(process, run_dir, moment, lines)
        stored |= evidence.acknowledged(run_dir)
        steps |= evidence.step_results(run_dir)
        process.send_signal(signal.SIGKILL)  # no effect on a process that has ended
        if process.wait() == 0:
            break  # it was faster than the uninterrupted run
        wait(folder, process, code=-signal.SIGKILL)
        killed += 1
        assert evidence.lost(stored, evidence.acknowledged(run_dir)) == []
        assert evidence.lost(steps, evidence.step_results(run_dir)) == []
    wait(folder, start(folder, *resume))
    assert evidence.lost(stored, evidence.acknowledged(run_dir)) == []
    assert evidence.lost(steps, evidence.step_results(run_dir)) == []
    return killed


def test_demo_killed_at_ten_random_times_ends_like_an_uninterrupted_one(
    evidence: ModuleType, tmp_path: Path
) -> None:
    uninterrupted = tmp_path / "uninterrupted" / "runs" / NAME
    prepare(uninterrupted)
    wait(tmp_path / "uninterrupted", start(tmp_path / "uninterrupted", "--resume", f"runs/{NAME}"))
    seconds = (datetime.now(UTC) - times(uninterrupted)[0]).total_seconds()
    summary = json.loads((uninterrupted / "summary.json").read_text())
    rng, killed, runs = Random(SEED), 0, 0
    while killed < KILLS:
        runs += 1
        assert runs <= KILLS, "most kills came after the end: the uninterrupted run was far slower than the others"
        run_dir = tmp_path / f"killed-{runs}" / "runs" / NAME
        prepare(run_dir)
        count = min(KILLS_PER_RUN, KILLS - killed)
        times_drawn = sorted(rng.uniform(0.0, seconds) for _ in range(count))
        killed += kill_at(evidence, run_dir, [moment_of(uninterrupted, time_drawn) for time_drawn in times_drawn])
        resumed = json.loads((run_dir / "summary.json").read_text())
        assert without_measures(resumed) == without_measures(summary)
        assert report_without_measures(run_dir) == report_without_measures(uninterrupted)
        assert evidence.contents(run_dir) == evidence.contents(uninterrupted)
        assert evidence.step_results(run_dir) == evidence.step_results(uninterrupted)
