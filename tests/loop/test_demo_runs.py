"""Whole demos as processes: killed at random moments they end as undisturbed ones, and lose nothing."""

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
"""What a run measures of itself; everything else is decided by its seed."""


def begin(folder: Path, *arguments: str) -> "subprocess.Popen[bytes]":
    """A demo whose runs lie in ``folder/runs``."""
    with (folder / "said.txt").open("ab") as said:
        return subprocess.Popen([*PROGRAM, *arguments], cwd=folder, stdout=said, stderr=said)


def end(folder: Path, process: "subprocess.Popen[bytes]", *, code: int = 0) -> None:
    assert process.wait() == code, (folder / "said.txt").read_text()[-3000:]


def prepare(run_dir: Path) -> None:
    """A run that was killed before its first line: so that all runs have one name, which their ids contain."""
    run_dir.mkdir(parents=True)
    (run_dir / "journal.jsonl").touch()


def events(run_dir: Path) -> list[dict[str, Any]]:
    """What the journal says so far; a last line that is being written is left out."""
    return [json.loads(line) for line in (run_dir / "journal.jsonl").read_text().split("\n")[:-1]]


class Moment(NamedTuple):
    """A point of a run's working time, told by the run's own progress: a resumed run does not start at zero."""

    steps: int
    """Steps that had been started; 0 = before the first."""
    seconds: float
    """Since the last of them was started, or since the run was opened."""


def times(run_dir: Path) -> list[datetime]:
    """When the run was opened, and when each step was started."""
    shown = [each["at"] for each in events(run_dir) if each["event"] in ("opened", "started")]
    return [datetime.fromisoformat(each) for each in shown]


def moment_of(calm: Path, seconds: float) -> Moment:
    """The moment so many seconds after the undisturbed run was opened."""
    since = [(moment - times(calm)[0]).total_seconds() for moment in times(calm)]
    steps = bisect(since, seconds) - 1
    return Moment(steps, seconds - since[steps])


def wait_for(process: "subprocess.Popen[bytes]", run_dir: Path, moment: Moment, lines: int) -> None:
    """Until the process has come so far, or has ended; ``lines`` are those that earlier processes wrote."""
    while process.poll() is None:
        found = events(run_dir)
        new = [each["event"] for each in found[lines:]]
        reached = len({each["step"] for each in found if each["event"] == "started"})
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
    return replace(report, facts=facts, results=tuple(each for each in report.results if each.name not in MEASURED))


def shake(evidence: ModuleType, run_dir: Path, moments: list[Moment]) -> int:
    """Kills the run at the moments and lets it end; returns how many kills found it at work."""
    folder, killed = run_dir.parent.parent, 0
    resume = ("--resume", str(run_dir.relative_to(folder)))
    stored: dict[str, Any] = {}
    steps: dict[str, Any] = {}
    for moment in moments:
        lines = len(events(run_dir))
        process = begin(folder, *resume)
        wait_for(process, run_dir, moment, lines)
        stored |= evidence.acknowledged(run_dir)
        steps |= evidence.step_results(run_dir)
        process.send_signal(signal.SIGKILL)  # no effect on a process that has ended
        if process.wait() == 0:
            break  # it was faster than the undisturbed run: nothing is left to kill
        end(folder, process, code=-signal.SIGKILL)
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
    end(tmp_path / "calm", begin(tmp_path / "calm", "--resume", f"runs/{NAME}"))
    seconds = (datetime.now(UTC) - times(calm)[0]).total_seconds()
    summary = json.loads((calm / "summary.json").read_text())
    rng, killed, runs = Random(SEED), 0, 0
    while killed < KILLS:
        runs += 1
        assert runs <= KILLS, "most kills came after the end: the undisturbed run was far slower than the others"
        run_dir = tmp_path / f"shaken-{runs}" / "runs" / NAME
        prepare(run_dir)
        count = min(KILLS_PER_RUN, KILLS - killed)
        drawn = sorted(rng.uniform(0.0, seconds) for _ in range(count))
        killed += shake(evidence, run_dir, [moment_of(calm, each) for each in drawn])
        found = json.loads((run_dir / "summary.json").read_text())
        assert without_measures(found) == without_measures(summary)
        assert report_without_measures(run_dir) == report_without_measures(calm)
        assert evidence.contents(run_dir) == evidence.contents(calm)
        assert evidence.step_results(run_dir) == evidence.step_results(calm)
