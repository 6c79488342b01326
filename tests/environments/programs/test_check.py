"""Commands that check a workspace end with everything they started, and cannot flood this process."""

import asyncio
import os
import select
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from upturn.environments import run_check, run_pytest
from upturn.environments.sandbox import Bubblewrap, CommandEnd, run_command
from upturn.errors import WorldError

PYTHON = sys.executable


def has_ended(pid: int) -> bool:
    """Whether the process ends within ten seconds; a killed one takes a moment."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    ended, _, _ = select.select([descriptor], [], [], 10)
    os.close(descriptor)
    return bool(ended)


def test_output_errors_and_exit_code_are_returned(tmp_path: Path) -> None:
    program = "import sys; print(input()[::-1]); print('é', file=sys.stderr); sys.exit(3)"
    result = run_check(tmp_path, [PYTHON, "-X", "utf8", "-c", program], input="abc\n")
    assert (result.exit_code, result.output, result.errors, result.is_cut) == (3, "cba\n", "é\n", False)


def test_the_command_runs_in_the_workspace_without_our_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    program = "import os; print(os.getcwd(), os.environ.get('OPENAI_API_KEY'), os.environ['HOME'], os.environ['A'])"
    result = run_check(tmp_path, [PYTHON, "-c", program], variables={"A": "b"})
    assert result.output.split() == [str(tmp_path), "None", str(tmp_path), "b"]


def test_the_time_limit_ends_the_command_and_its_children(tmp_path: Path) -> None:
    program = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(1000)'])\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(1000)"
    )
    result = run_check(tmp_path, [PYTHON, "-c", program], seconds=0.5)
    assert result.exit_code is None
    assert not result.output.strip() or has_ended(int(result.output))


def test_what_a_command_leaves_behind_ends_with_it(tmp_path: Path) -> None:
    program = (
        "import subprocess, sys\n"
        "print(subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(1000)']).pid, flush=True)\n"
    )
    result = run_check(tmp_path, [PYTHON, "-c", program], seconds=300)
    assert result.exit_code == 0
    assert has_ended(int(result.output))


async def _check(folder: Path) -> str:
    return run_check(folder, [PYTHON, "-c", "print(1)"]).output


def test_a_command_can_be_checked_beside_a_running_event_loop(tmp_path: Path) -> None:
    assert asyncio.run(_check(tmp_path)) == "1\n"


def test_endless_output_is_cut_and_ended(tmp_path: Path) -> None:
    result = run_check(tmp_path, ["yes", "x" * 10_000], seconds=1.0)
    assert (result.exit_code, result.is_cut) == (None, True)
    assert len(result.output) == 1_000_000


def test_a_command_that_closes_its_output_is_waited_for(tmp_path: Path) -> None:
    program = "import os, time\nos.close(1); os.close(2)\ntime.sleep(0.1)\nos._exit(7)"
    assert run_check(tmp_path, [PYTHON, "-c", program]).exit_code == 7


def test_a_command_that_kills_itself_has_a_negative_exit_code(tmp_path: Path) -> None:
    program = "import os; os.kill(os.getpid(), 9)"
    assert run_check(tmp_path, [PYTHON, "-c", program]).exit_code == -9


def test_a_command_that_cannot_start_is_named(tmp_path: Path) -> None:
    with pytest.raises(WorldError, match=r"the command \['no-such-command'\] cannot be started: .*No such file"):
        run_check(tmp_path, ["no-such-command"])


@dataclass
class FakeSandbox:
    """Notes what it runs."""

    workspace: Path
    commands: ClassVar[list[tuple[Path, tuple[str, ...]]]] = []

    async def exec(self, command: Sequence[str], **options: Any) -> CommandEnd:
        self.commands.append((self.workspace, tuple(command)))
        return await run_command(command, **options)

    async def read_file(self, path: str) -> bytes:
        raise NotImplementedError

    async def write_file(self, path: str, contents: bytes) -> None:
        raise NotImplementedError


def test_a_command_runs_in_the_given_sandbox(tmp_path: Path) -> None:
    result = run_check(tmp_path, [PYTHON, "-c", "print(2)"], sandbox=FakeSandbox)
    assert result.output == "2\n"
    assert FakeSandbox.commands == [(tmp_path, (PYTHON, "-c", "print(2)"))]


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_hidden_tests_run_in_bubblewrap(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    workspace = tmp_path / "work"
    workspace.mkdir()
    (workspace / "add.py").write_text(
        f"from pathlib import Path\ntry: Path({str(outside)!r}).touch()\nexcept OSError: pass\n"
        "def add(a, b): return a + b\n"
    )
    tests = {"test_add.py": "from add import add\ndef test_add(): assert add(1, 2) == 3\n"}
    assert run_pytest(workspace, tests, sandbox=Bubblewrap).share() == 1
    assert not outside.exists()
    assert run_pytest(workspace, tests).share() == 1
    assert outside.exists()
