"""Commands in processes of their own: what they get and give, and that nothing of them is left."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from upturn.environments.sandbox import CommandEnd, run_command

MARKER = f"UPTURN_TEST_{os.getpid()}"
DAEMON = '(setsid sh -c "exec 9> $0; printf started >&9; sleep 300" &); echo called; '
"""Starts a process that has left its session and whose parent is dead."""


async def call(*command: str, folder: Path = Path("/"), **options: Any) -> CommandEnd:
    given: dict[str, Any] = {
        "environment": {MARKER: "1", "PATH": os.environ["PATH"]},
        "input": b"",
        "output_limit": 1000,
    }
    return await run_command(command, folder=folder, **(given | options))


def run(*command: str, **options: Any) -> CommandEnd:
    return asyncio.run(call(*command, **options))


class Leftovers(NamedTuple):
    """What may leak."""

    descriptors: tuple[str, ...]
    children: frozenset[int]
    marked: frozenset[int]
    """Processes with the marker in their environment."""


def leftovers() -> Leftovers:
    children, marked = set[int](), set[int]()
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if int((path / "stat").read_text().rpartition(")")[2].split()[1]) == os.getpid():
                children.add(int(path.name))
            if MARKER.encode() + b"=" in (path / "environ").read_bytes():
                marked.add(int(path.name))
        except OSError:  # it has ended
            continue
    descriptors = list[str]()
    for link in sorted(Path("/proc/self/fd").iterdir()):
        try:
            descriptors.append(f"{link.name} {str(link.readlink()).partition(':')[0]}")
        except FileNotFoundError:  # of the listing itself
            continue
    return Leftovers(tuple(descriptors), frozenset(children), frozenset(marked))


def test_it_gets_input_environment_and_folder_and_no_more(tmp_path: Path) -> None:
    program = "import os, sys; print(sys.stdin.read(), dict(os.environ), os.getcwd(), os.listdir('/proc/self/fd'))"
    end = run(
        sys.executable, "-c", program, input="Grüße".encode(), environment={"LC_ALL": "C.UTF-8"}, folder=tmp_path
    )
    listing = "['0', '1', '2', '3']"  # 3 is the listing itself
    assert end == CommandEnd(0, f"Grüße {{'LC_ALL': 'C.UTF-8'}} {tmp_path} {listing}\n", "", False)


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("exit 7", CommandEnd(7, "", "", False)),
        ("kill -9 $$", CommandEnd(-9, "", "", False)),
        ("kill -TERM 0", CommandEnd(-15, "", "", False)),
        ("kill -9 $PPID; while :; do :; done", CommandEnd(-9, "", "", False)),
        ("echo out; echo err >&2", CommandEnd(0, "out\n", "err\n", False)),
        ("exec 0<&- 1>&- 2>&-; exit 3", CommandEnd(3, "", "", False)),
    ],
)
def test_its_end_is_reported(script: str, expected: CommandEnd) -> None:
    assert run("sh", "-c", script, input=b"x" * 1_000_000) == expected


def test_signals_are_at_their_defaults() -> None:
    assert run("sh", "-c", "kill -PIPE $$").exit_code == -signal.SIGPIPE


def test_only_the_last_part_of_long_output_is_kept() -> None:
    program = "import sys; sys.stdout.write('ä' * 3_000_000 + 'end'); sys.stderr.write('e' * 1000)"
    end = run(sys.executable, "-X", "utf8", "-c", program)
    # 1000 bytes are 498 characters of two bytes, half of one, and three of one byte
    assert end == CommandEnd(0, "ä" * 498 + "end", "e" * 1000, True)


def test_endless_output_ends_at_the_time_out_and_takes_no_memory() -> None:
    end = run("yes", timeout_seconds=0.5)
    assert (end.exit_code, end.errors) == (None, "")
    assert set(end.output) <= set("y\n")
    assert len(end.output) <= 1000


@pytest.mark.parametrize(
    ("command", "kind", "message"),
    [
        ("no-such-command", FileNotFoundError, "the command 'no-such-command' cannot start: No such file"),
        ("/etc/passwd", PermissionError, "the command '/etc/passwd' cannot start: Permission denied"),
    ],
)
def test_a_command_that_cannot_start_is_an_error(command: str, kind: type[OSError], message: str) -> None:
    before = leftovers()
    with pytest.raises(kind, match=message):
        run(command)
    with pytest.raises(FileNotFoundError, match="/no-such-folder"):
        run("true", folder=Path("/no-such-folder"))
    assert leftovers() == before


def test_it_runs_in_other_threads_than_the_main_one() -> None:
    ends = list[CommandEnd]()
    threads = [threading.Thread(target=lambda: ends.append(run("sh", "-c", "echo $$"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [(end.exit_code, end.output != "") for end in ends] == [(0, True)] * 4


def test_daemons_end_at_the_time_out(tmp_path: Path) -> None:
    before = leftovers()
    end = run("sh", "-c", f"{DAEMON} sleep 300", str(tmp_path / "started"), timeout_seconds=0.5)
    assert end.exit_code is None
    assert leftovers() == before


@pytest.mark.parametrize("how", ["exit", "cancellation"])
def test_daemons_end_with_it(how: str, tmp_path: Path) -> None:
    """The test reads to the end of a pipe that only the daemon holds."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    async def attempt() -> None:
        wait = f"cat {pipe}.end" if how == "exit" else "sleep 300"
        running = asyncio.ensure_future(call("sh", "-c", DAEMON + wait, str(pipe)))
        with await asyncio.to_thread(pipe.open) as file:
            assert await asyncio.to_thread(file.read, 7) == "started"
            if how == "exit":
                Path(f"{pipe}.end").open("w").close()
            if how == "cancellation":
                running.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await running
            else:
                assert await running == CommandEnd(0, "called\n", "", False)
            assert file.read() == ""

    os.mkfifo(f"{pipe}.end")
    before = leftovers()
    asyncio.run(attempt())
    assert leftovers() == before


def test_all_ends_where_the_caller_is_killed(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    caller = (
        "import asyncio, os, sys; from pathlib import Path; from upturn.environments.sandbox import run_command\n"
        "given = {'environment': os.environ, 'input': b'', 'folder': Path('/'), 'output_limit': 9}\n"
        "asyncio.run(run_command(sys.argv[1:], **given))"
    )
    process = subprocess.Popen([sys.executable, "-c", caller, "sh", "-c", f"{DAEMON} sleep 300", str(pipe)])
    with pipe.open() as file:
        assert file.read(7) == "started"
        process.kill()
        process.wait()
        assert file.read() == ""


HUNG, FORKED, PRINTING, EXITING = (
    "sleep 300",
    "(setsid sleep 300 &); (sleep 300 &)",
    "yes",
    "exit 3",
)


async def many_attempts(count: int) -> Counter[int | str | None]:
    """Exit codes of as many attempts of each kind, and of cancelled ones; sixteen run at a time."""
    places = asyncio.Semaphore(16)
    ends = Counter[int | str | None]()

    async def attempt(number: int) -> None:
        script = scripts[number % 5]
        async with places:
            limit = 0.2 if script in {HUNG, PRINTING} else None
            try:  # cancelled before, while and after it starts
                async with asyncio.timeout(number % 7 * 0.01 if number % 5 == 4 else None):
                    ends[(await call("sh", "-c", script, timeout_seconds=limit)).exit_code] += 1
            except TimeoutError:
                ends["cancelled"] += 1

    scripts = (HUNG, FORKED, PRINTING, EXITING, HUNG)
    await asyncio.gather(*map(attempt, range(count)))
    return ends


@pytest.mark.parametrize("milliseconds", [0, 5, 10, 30, 100])
def test_an_error_elsewhere_in_the_loop_ends_all_attempts(milliseconds: int) -> None:
    """``asyncio.run`` cancels every task then, also one that only starts a process, which once never returned."""

    async def failing() -> None:
        attempts = [asyncio.ensure_future(call("sh", "-c", "(setsid sleep 300 &); sleep 300")) for _ in range(3)]
        await asyncio.wait(attempts, timeout=milliseconds / 1000)
        raise ZeroDivisionError

    before = leftovers()
    with pytest.raises(ZeroDivisionError):
        asyncio.run(failing())
    assert leftovers() == before


@pytest.mark.parametrize("count", [100, pytest.param(1000, marks=pytest.mark.slow)])
def test_nothing_is_left_of_many_attempts(count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    asyncio.run(many_attempts(5))
    before = leftovers()
    ends = asyncio.run(many_attempts(count))
    assert ends == {None: count * 2 // 5, 0: count // 5, 3: count // 5, "cancelled": count // 5}
    assert list(tmp_path.iterdir()) == []
    assert leftovers() == before
