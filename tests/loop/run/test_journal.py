"""Durable steps: finished steps run once, interrupted ones again, and a journal of another run is refused."""

import json
import os
import random
import signal
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.forked import Forked, forked
from upturn.errors import JournalError
from upturn.loop.run.journal import FILE_NAME, Journal, read_progress
from upturn.records import Feedback, JsonValue


def opened(run_dir: Path, *, config_hash: str = "c0", version: str = "0.1.0", command: str = "demo") -> Journal:
    return Journal.open(run_dir, config_hash=config_hash, version=version, command=command)


def counting(calls: list[str], name: str, result: JsonValue) -> Callable[[], JsonValue]:
    def function() -> JsonValue:
        calls.append(name)
        return result

    return function


def test_a_finished_step_does_not_run_again(tmp_path: Path) -> None:
    calls: list[str] = []
    with opened(tmp_path) as journal:
        first = journal.json_step("a", counting(calls, "a", {"x": [1, 2.5, None, "é"]}))
    with opened(tmp_path) as journal:
        assert journal.has_finished("a")
        assert not journal.has_finished("b")
        again = journal.json_step("a", counting(calls, "a", "other"))
        journal.json_step("b", counting(calls, "b", 1))
    assert first == again == {"x": [1, 2.5, None, "é"]}
    assert calls == ["a", "b"]


def test_a_step_that_raised_runs_again(tmp_path: Path) -> None:
    def fails() -> JsonValue:
        raise KeyboardInterrupt

    with opened(tmp_path) as journal, pytest.raises(KeyboardInterrupt):
        journal.json_step("a", fails)
    with opened(tmp_path) as journal:
        assert not journal.has_finished("a")
        assert journal.json_step("a", lambda: 7) == 7
        (step,) = journal.progress().steps
    assert (step.name, step.is_finished, step.starts) == ("a", True, 2)


def test_first_and_resumed_runs_see_the_same_result(tmp_path: Path) -> None:
    def encode(pair: tuple[int, int]) -> JsonValue:
        return list(pair)

    def decode(stored: JsonValue) -> tuple[int, int]:
        assert isinstance(stored, list)  # never the tuple that the function returned
        first, second = stored
        assert isinstance(first, int)
        assert isinstance(second, int)
        return first, second

    with opened(tmp_path) as journal:
        assert journal.step("pair", lambda: (1, 2), encode=encode, decode=decode) == (1, 2)
    with opened(tmp_path) as journal:
        assert journal.step("pair", lambda: (3, 4), encode=encode, decode=decode) == (1, 2)


def test_later_changes_of_a_result_do_not_affect_the_journal(tmp_path: Path) -> None:
    result: list[JsonValue] = [1]
    with opened(tmp_path) as journal:
        returned = journal.json_step("a", lambda: result)
        result.append(2)
        assert returned == [1]


def test_record_steps_round_trip(tmp_path: Path) -> None:
    feedback = Feedback("f", "decision", "d", "thumbs", 1.0)
    with opened(tmp_path) as journal:
        assert journal.record_step("a", Feedback, lambda: feedback) == feedback
    with opened(tmp_path) as journal:
        assert journal.record_step("a", Feedback, lambda: Feedback("other", "decision", "", "", 0.0)) == feedback


def test_a_step_name_is_used_once(tmp_path: Path) -> None:
    with opened(tmp_path) as journal:
        journal.json_step("a", lambda: 1)
        with pytest.raises(JournalError, match="'a' was called twice"):
            journal.json_step("a", lambda: 2)


def test_a_nan_is_refused_and_the_step_stays_unfinished(tmp_path: Path) -> None:
    with opened(tmp_path) as journal, pytest.raises(ValueError, match="not JSON compliant"):
        journal.json_step("a", lambda: float("nan"))
    with opened(tmp_path) as journal:
        assert not journal.has_finished("a")


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"config_hash": "c1"}, "config_hash is 'c0' there and 'c1' now"),
        ({"version": "0.2.0"}, "version is '0.1.0' there and '0.2.0' now"),
        ({"command": "loop"}, "command is 'demo' there and 'loop' now"),
    ],
)
def test_another_run_is_refused_naming_both_sides(tmp_path: Path, changed: dict[str, str], problem: str) -> None:
    opened(tmp_path).close()
    with pytest.raises(JournalError, match=problem):
        opened(tmp_path, **changed)
    opened(tmp_path).close()  # the refusal left it unchanged and unlocked


def test_a_second_process_is_refused_with_the_id_of_the_first(tmp_path: Path) -> None:
    with opened(tmp_path), pytest.raises(JournalError, match=f"process {os.getpid()} is working on the run"):
        opened(tmp_path)
    opened(tmp_path).close()


@pytest.mark.parametrize("tail", [b'{"event":"finished","step":"b","res', b"\x00\x00\x00", b"{]\n", b'{"event"'])
def test_a_torn_last_line_is_dropped_and_counted(tmp_path: Path, tail: bytes) -> None:
    with opened(tmp_path) as journal:
        journal.json_step("a", lambda: 1)
    with (tmp_path / FILE_NAME).open("ab") as file:
        file.write(tail)
    with opened(tmp_path) as journal:
        assert journal.json_step("a", lambda: 2) == 1
        assert journal.json_step("b", lambda: 3) == 3
        assert journal.progress().torn_lines == 1
    with opened(tmp_path) as journal:
        assert journal.json_step("b", lambda: 4) == 3
        assert journal.progress().torn_lines == 1


def test_cut_at_every_byte_loses_at_most_the_last_step(tmp_path: Path) -> None:
    with opened(tmp_path / "whole") as journal:
        for name in ("a", "b"):
            journal.json_step(name, lambda: 1)
    text = (tmp_path / "whole" / FILE_NAME).read_bytes()
    for length in range(0, len(text), 7):
        cut = tmp_path / str(length)
        cut.mkdir()
        (cut / FILE_NAME).write_bytes(text[:length])
        complete = text[:length].rpartition(b"\n")[0]
        with opened(cut) as journal:
            for name in ("a", "b"):
                is_kept = f'"finished","step":"{name}"'.encode() in complete
                assert journal.json_step(name, lambda: 2) == (1 if is_kept else 2)


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (b'{]\n{"event":"opened"}\n', "line 1 is damaged: not JSON"),
        (b'{"event":"opened","pid":1,"torn":0}\n', "the first line must name the run"),
        (b'{"event":"journal","format":9}\n', "format 9, this Upturn reads 1"),
        (b'["event"]\n', "not an event"),
        (b'{"event":"invented"}\n', "event 'invented'"),
    ],
)
def test_a_damaged_journal_is_refused(tmp_path: Path, lines: bytes, problem: str) -> None:
    (tmp_path / FILE_NAME).write_bytes(lines)
    with pytest.raises(JournalError, match=problem):
        opened(tmp_path)


def test_progress_has_steps_times_and_holder(tmp_path: Path) -> None:
    moments = iter(datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=second) for second in range(10))
    with Journal.open(
        tmp_path, config_hash="c0", version="0.1.0", command="demo", clock=lambda: next(moments)
    ) as journal:
        journal.json_step("a", lambda: 1)
        assert read_progress(tmp_path).pid == os.getpid()
    progress = read_progress(tmp_path)
    (step,) = progress.steps
    assert step == ("a", True, "2026-01-01T00:00:01+00:00", 1.0, 1)
    assert (progress.key.command, progress.opened, progress.torn_lines, progress.pid) == ("demo", 1, 0, None)


def test_progress_of_a_missing_run_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="holds no run"):
        read_progress(tmp_path)


STEPS = 12
WORKER = f"""
import random, time
from pathlib import Path
from upturn.loop.run.journal import Journal

def run(name):
    folder = Path(name)
    with Journal.open(folder, config_hash="c", version="v", command="kill") as journal:
        total = 0
        for index in range({STEPS}):
            def work(index=index):
                time.sleep(0.01)
                with (folder / "effects").open("a") as file:
                    file.write(f"{{index}} ")
                return [random.Random(index).random(), total]
            drawn, before = journal.json_step(f"step-{{index}}", work)
            assert before == total
            total += drawn
        print(total)
"""


def killed_twice(worker: Forked, folder: Path, draw: random.Random) -> tuple[int, list[str]]:
    """How often it was killed, and what it printed at last.

    It may end before it is killed twice: nobody knows when a busy machine goes on with which process.
    """
    path, kills = folder / FILE_NAME, 0
    while True:
        worker.start(str(folder))
        while not path.exists() or path.read_bytes().count(b'"opened"') <= kills:
            time.sleep(0.001)
        if kills < 2:
            time.sleep(draw.uniform(0, 0.05))
            worker.signal(signal.SIGKILL)
        output, code = worker.end()
        if code == 0:
            return kills, output
        assert code == -signal.SIGKILL
        kills += 1


def test_killed_anywhere_resumes_to_the_same_result(tmp_path: Path) -> None:
    expected = f"{sum(random.Random(index).random() for index in range(STEPS))}\n"
    draw, kills = random.Random(0), 0
    with forked(WORKER) as worker:
        for repetition in range(20):
            folder = tmp_path / str(repetition)
            folder.mkdir()
            kills, output = killed_twice(worker, folder, draw)
            assert output == [expected]
            lines = [json.loads(line) for line in (folder / FILE_NAME).read_text().splitlines()]
            finished = [line["step"] for line in lines if line["event"] == "finished"]
            assert finished == [f"step-{index}" for index in range(STEPS)]
            # A finished step did not run again: all its effects come before the next step's.
            effects = [int(index) for index in (folder / "effects").read_text().split()]
            assert effects == sorted(effects)
            if kills == 2:
                break
    assert kills == 2, "too few kills hit the work to show anything"
    progress = read_progress(folder)
    assert progress.opened == kills + 1
    assert sum(step.starts for step in progress.steps) <= STEPS + kills
