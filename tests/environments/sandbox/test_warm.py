"""A program that is imported once and forked for each attempt: as a command, and nothing of it is left."""

import asyncio
import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.environments.sandbox.test_command import MARKER, leftovers
from upturn.environments.sandbox import CommandEnd, WarmProgram

PROGRAM = """
    import asyncio, os, signal, subprocess, sys, time

    print("imported")
    with open("imports", "a") as file:
        file.write("x")

    def described(task):
        print("said", file=sys.stderr)
        return {"task": task, "folder": os.getcwd(), "environment": dict(os.environ), "rest": sys.stdin.read()}

    async def written(task):
        await asyncio.sleep(0)
        return "Grüße " + task

    def nothing():
        os.environ["LEFT"] = "in its own process"

    def wrong():
        raise ValueError("no such task")

    def leaving():
        sys.exit("left")

    def printing():
        while True:
            print("y")

    def forking(wait):
        subprocess.Popen(["sh", "-c", "setsid sleep 300 & sleep 300"], start_new_session=True)
        time.sleep(wait)

    def holding():
        script = 'exec 9> pipe; printf started >&9; setsid sleep 300 & sleep 300'
        subprocess.Popen(["sh", "-c", script], start_new_session=True)
        time.sleep(300)

    def ending_the_server():
        parents = open(f"/proc/{os.getppid()}/stat").read().rpartition(")")[2].split()
        os.kill(int(parents[1]), signal.SIGKILL)
        time.sleep(300)

    def open_files():
        return len(os.listdir("/proc/self/fd"))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    tmp_path.joinpath("warm_program.py").write_text(textwrap.dedent(PROGRAM))
    yield tmp_path


def using(folder: Path, function: str, work: Callable[[WarmProgram], Awaitable[Any]]) -> Any:
    """What ``work`` returns; nothing is left then."""

    async def used() -> Any:
        program = WarmProgram(
            f"warm_program:{function}", folder=folder, environment={MARKER: "1", "PATH": os.environ["PATH"]}
        )
        try:
            return await work(program)
        finally:
            await program.close()

    before = leftovers()
    try:
        return asyncio.run(used())
    finally:
        assert leftovers() == before


async def attempt(program: WarmProgram, **options: Any) -> CommandEnd:
    given: dict[str, Any] = {
        "environment": {MARKER: "1", "PATH": os.environ["PATH"]},
        "input": b"",
        "folder": Path("/"),
        "output_limit": 1000,
    }
    return await program.run(**(given | options))


def test_each_attempt_has_its_own_variables_folder_and_input(folder: Path) -> None:
    async def work(program: WarmProgram) -> list[CommandEnd]:
        return await asyncio.gather(
            *(
                attempt(program, environment={"NUMBER": str(n)}, input=b'"task %d"' % n, folder=folder)
                for n in range(3)
            )
        )

    for number, end in enumerate(using(folder, "described", work)):
        assert (end.exit_code, end.errors) == (0, "said\n")
        assert json.loads(end.output) == {
            "task": f"task {number}",
            "folder": str(folder),
            "environment": {"NUMBER": str(number)},
            "rest": "",
        }
    assert folder.joinpath("imports").read_text() == "x"


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        ("written", CommandEnd(0, "Grüße you", "", False)),
        ("nothing", CommandEnd(0, "", "", False)),
        ("leaving", CommandEnd(1, "", "left\n", False)),
        # standard ones, one that tells the supervisor of an error at the start, and the listing itself
        ("open_files", CommandEnd(0, "5", "", False)),
    ],
)
def test_its_end_is_reported_as_a_commands(function: str, expected: CommandEnd, folder: Path) -> None:
    async def work(program: WarmProgram) -> list[CommandEnd]:
        return [await attempt(program, input=b'"you"') for _ in range(2)]

    assert using(folder, function, work) == [expected] * 2


def test_an_exception_is_among_its_errors(folder: Path) -> None:
    end = using(folder, "wrong", attempt)
    assert (end.exit_code, end.output, end.errors.splitlines()[-1]) == (1, "", "ValueError: no such task")


def test_a_program_that_cannot_be_imported_is_an_error(folder: Path) -> None:
    expected = r"'warm_program:missing' cannot be imported: it ended with 1: .*has no attribute 'missing'"
    with pytest.raises(RuntimeError, match=f"(?s){expected}"):
        using(folder, "missing", attempt)


def test_endless_output_ends_at_the_time_out(folder: Path) -> None:
    async def work(program: WarmProgram) -> CommandEnd:
        return await attempt(program, timeout_seconds=0.5)

    end = using(folder, "printing", work)
    assert (end.exit_code, end.errors) == (None, "")
    assert set(end.output) <= set("y\n")
    assert len(end.output) <= 1000


def test_daemons_end_with_the_attempt_and_the_others_go_on(folder: Path) -> None:
    async def work(program: WarmProgram) -> tuple[CommandEnd, CommandEnd]:
        async def cancelled() -> None:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.3):
                    await attempt(program, input=b"300")

        await attempt(program, input=b"0")
        attempts = (attempt(program, input=b"0"), attempt(program, input=b"300", timeout_seconds=0.3), cancelled())
        first, second, _ = await asyncio.gather(*attempts)
        assert len(leftovers().marked) == 2  # the server and its supervisor
        return first, second

    gone, late = CommandEnd(0, "", "", False), CommandEnd(None, "", "", False)
    assert using(folder, "forking", work) == (gone, late)


def test_a_server_that_was_killed_is_started_again(folder: Path) -> None:
    async def work(program: WarmProgram) -> list[CommandEnd]:
        return [await attempt(program), await attempt(program)]

    assert using(folder, "ending_the_server", work) == [CommandEnd(-9, "", "", False)] * 2
    assert folder.joinpath("imports").read_text() == "xx"


def test_all_ends_where_the_caller_is_killed(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    caller = """
        import asyncio, os, sys
        from pathlib import Path
        from upturn.environments.sandbox import WarmProgram
        folder = Path(sys.argv[1])
        program = WarmProgram("warm_program:holding", folder=folder, environment=os.environ)
        given = {"environment": os.environ, "input": b"", "folder": folder, "output_limit": 9}
        asyncio.run(program.run(**given))
    """
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(caller), str(folder)])
    with (folder / "pipe").open() as file:
        assert file.read(7) == "started"
        process.kill()
        process.wait()
        assert file.read() == ""


def test_nothing_is_left_of_many_attempts(folder: Path) -> None:
    async def work(program: WarmProgram) -> None:
        assert (await attempt(program)).exit_code == 0
        before = leftovers()
        ends = await asyncio.gather(*(attempt(program) for _ in range(60)))
        assert [end.exit_code for end in ends] == [0] * 60
        assert leftovers() == before

    using(folder, "nothing", work)
