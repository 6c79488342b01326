"""The live view: plain lines without a terminal, a live view on one, nothing if quiet."""

import io
import os
import pty
import threading
from dataclasses import dataclass

import pytest

from upturn.cli.live import LiveView, sparkline
from upturn.cli.output import StoppedError
from upturn.loop.progress import NoProgress, Progress


@dataclass
class Clock:
    """A clock that is set by hand."""

    now: float = 100.0

    def __call__(self) -> float:
        return self.now


def work(progress: Progress, clock: Clock) -> None:
    """Two stages: ten steps of four seconds, then one."""
    progress.stage("train", total=10)
    for step in range(10):
        clock.now += 4
        progress.advance(reward=step / 10)
    progress.note("the candidate is promoted")
    progress.stage("report")
    clock.now += 1


def plain_lines(view_clock: Clock) -> list[str]:
    stream = io.StringIO()
    with LiveView("upturn demo", stages=("train", "report"), stream=stream, clock=view_clock) as view:
        work(view, view_clock)
    return stream.getvalue().splitlines()


def test_plain_lines_have_times() -> None:
    assert plain_lines(Clock()) == [
        "00:00 upturn demo",
        "00:00 [1/2] train (10)",
        "00:12 [1/2] train: 3/10; reward 0.2",
        "00:24 [1/2] train: 6/10; reward 0.5",
        "00:36 [1/2] train: 9/10; reward 0.8",
        "00:40 the candidate is promoted",
        "00:40 [1/2] train: done after 40.0 s; reward 0.9",
        "00:40 [2/2] report",
        "00:41 [2/2] report: done after 1.0 s",
    ]


def test_a_stage_shows_only_its_own_figures() -> None:
    stream, clock = io.StringIO(), Clock()
    with LiveView("job", stream=stream, clock=clock) as view:
        view.figure("agents", 3)
        view.stage("serve")
        view.advance(success=0.5)
    assert stream.getvalue().splitlines()[-1] == "00:00 serve: done after 0.0 s; success 0.5"


def test_many_fast_steps_print_few_lines() -> None:
    stream, clock = io.StringIO(), Clock()
    with LiveView("job", stream=stream, clock=clock) as view:
        view.stage("many")
        for _ in range(10_000):
            clock.now += 0.001
            view.advance(2)
    assert stream.getvalue().splitlines() == [
        "00:00 job",
        "00:00 many",
        "00:10 many: 20,000",
        "00:10 many: done after 10.0 s",
    ]


def test_quiet_is_silent() -> None:
    stream, clock = io.StringIO(), Clock()
    with LiveView("job", is_quiet=True, stream=stream, clock=clock) as view:
        work(view, clock)
    assert stream.getvalue() == ""


def test_nothing_goes_to_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    with LiveView("job", clock=clock) as view:
        work(view, clock)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "the candidate is promoted" in captured.err


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), StoppedError("stopped; resume with: upturn demo")])
def test_interrupt_propagates_and_marks_its_stage(stop: BaseException) -> None:
    stream, clock = io.StringIO(), Clock()
    with pytest.raises(type(stop)), LiveView("job", stream=stream, clock=clock) as view:
        view.stage("train")
        raise stop
    assert stream.getvalue().splitlines()[-1] == "00:00 train: stopped after 0.0 s"


def test_error_propagates_and_marks_its_stage() -> None:
    stream, clock = io.StringIO(), Clock()
    with pytest.raises(ValueError, match="broke"), LiveView("job", stream=stream, clock=clock) as view:
        view.stage("train")
        raise ValueError("broke")
    assert stream.getvalue().splitlines()[-1] == "00:00 train: failed after 0.0 s"


def test_control_characters_and_markup_are_not_interpreted() -> None:
    stream = io.StringIO()
    with LiveView("job", stream=stream, clock=Clock()) as view:
        view.note("\x1b[2J [bold]task[/bold]\r\n")
    assert stream.getvalue().splitlines()[1] == "00:00 �[2J [bold]task[/bold]��"


def on_terminal(monkeypatch: pytest.MonkeyPatch, *, is_dumb: bool = False) -> str:
    """The output on a pseudo-terminal of 100 × 40 characters."""
    monkeypatch.setenv("TERM", "dumb" if is_dumb else "xterm-256color")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("LINES", "40")
    monkeypatch.delenv("NO_COLOR", raising=False)
    reader, writer = pty.openpty()
    chunks: list[bytes] = []
    # A terminal buffers few bytes, so its output is read while the view writes.
    reading = threading.Thread(target=read_all, args=(reader, chunks))
    reading.start()
    clock = Clock()
    with (
        os.fdopen(writer, "w", encoding="utf-8") as stream,
        LiveView("upturn demo", stages=("train", "report", "sleep"), stream=stream, clock=clock) as view,
    ):
        work(view, clock)
        view.figure("success L1", "93.0 %")
        view.note("[bold]kept[/bold]")
    reading.join(timeout=30)
    os.close(reader)
    return b"".join(chunks).decode()


def read_all(reader: int, chunks: list[bytes]) -> None:
    """Reads until the other end is closed."""
    try:
        while chunk := os.read(reader, 4096):
            chunks.append(chunk)
    except OSError:  # raised by Linux when a pseudo-terminal has no writer left
        return


def test_terminal_shows_checklist_figures_and_notes(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = on_terminal(monkeypatch)
    for text in ("✓ ", "train", "40.0 s", "report", "· sleep", "reward", "▁▂▃", "█", "93.0 %", "[bold]kept[/bold]"):
        assert text in shown
    assert shown.rstrip().endswith("\x1b[?25h"), "the cursor must be shown again"


def test_dumb_terminal_gets_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = on_terminal(monkeypatch, is_dumb=True)
    assert "00:40 [1/3] train: done after 40.0 s" in shown
    assert "\x1b" not in shown


def test_sparkline_runs_from_lowest_to_highest() -> None:
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7]) == "▁▂▃▄▅▆▇█"
    assert sparkline([2.0, 2.0]) == "▄▄"
    assert sparkline([1, -1]) == "█▁"


def test_long_histories_keep_their_latest_values() -> None:
    view = LiveView("job", is_quiet=True, stream=io.StringIO(), clock=Clock())
    with view:
        view.stage("train")
        for value in range(100):
            view.figure("reward", value)
    from rich.console import Console

    console = Console(file=io.StringIO(), width=100, record=True)
    console.print(view._render())
    text = console.export_text()
    assert sparkline(range(60, 100)) in text
    assert sparkline(range(59, 100)) not in text


def test_no_progress_has_the_same_interface() -> None:
    clock = Clock()
    work(NoProgress(), clock)
    assert clock.now == 141.0
