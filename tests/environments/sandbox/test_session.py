"""A sandbox that stays open: what a request gives, and that nothing outlives it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from upturn.environments.sandbox import Bubblewrap, CommandEnd
from upturn.environments.sandbox.session import SandboxSession


@pytest.fixture
def session(workspace: Path, bubblewrap: None) -> Iterator[SandboxSession]:
    hidden = workspace.parent / f"{workspace.name}-hidden"
    hidden.mkdir()
    (hidden / "answer.txt").write_text("42")
    opened = SandboxSession(Bubblewrap(workspace, readable=(hidden,), hidden=(hidden,)))
    yield opened
    opened.close()
    (hidden / "answer.txt").unlink()
    hidden.rmdir()


def test_scripts_and_commands_run_in_one_sandbox_over_the_workspace(
    session: SandboxSession, workspace: Path
) -> None:
    script = (
        "import sys; open('a.txt', 'w').write(sys.stdin.read()); print('said'); print('wrong', file=sys.stderr)"
    )
    end = session.run_python(script, input="ü" * 100_000, seconds=30, output_limit=100)
    assert end == CommandEnd(0, "said\n", "wrong\n", False)
    assert (workspace / "a.txt").read_text() == "ü" * 100_000
    end = session.exec(["sh", "-c", "wc -c < a.txt; rm a.txt; exit 3"], seconds=30, output_limit=100)
    assert end == CommandEnd(3, "200000\n", "", False)
    assert not list(workspace.iterdir())


def test_a_workspace_file_of_the_host_can_be_changed_inside(session: SandboxSession, workspace: Path) -> None:
    session.exec(["true"], seconds=30, output_limit=10)
    (workspace / "later.txt").write_text("host")
    assert session.exec(["sh", "-c", "echo inside >> later.txt"], seconds=30, output_limit=100).exit_code == 0
    assert (workspace / "later.txt").read_text() == "hostinside\n"


def test_the_end_of_long_output_is_kept(session: SandboxSession) -> None:
    end = session.run_python("print('x' * 500_000 + 'end')", seconds=30, output_limit=10)
    assert end == CommandEnd(0, "xxxxxxend\n", "", True)


def test_an_error_and_a_missing_program_are_reported(session: SandboxSession) -> None:
    assert session.run_python("raise ValueError('bad')", seconds=30, output_limit=10_000).errors.endswith(
        "ValueError: bad\n"
    )
    end = session.exec(["no-such-program"], seconds=30, output_limit=1_000)
    assert (end.exit_code, end.errors) == (127, "the command cannot start: No such file or directory\n")


def test_a_request_ends_at_its_time_and_the_next_one_runs(session: SandboxSession) -> None:
    assert session.run_python("while True: pass", seconds=0.5, output_limit=10).exit_code is None
    assert session.run_python("print(1)", seconds=30, output_limit=10).output == "1\n"


def test_no_process_outlives_its_request(session: SandboxSession) -> None:
    daemons = (
        "import os, time\nfor _ in range(5):\n    if not os.fork():\n        os.setsid()\n        time.sleep(600)\n"
    )
    session.run_python(daemons, seconds=30, output_limit=10)
    count = "cat /proc/[0-9]*/stat | grep -vc ') [ZX] '"
    end = session.exec(["sh", "-c", count], seconds=30, output_limit=10)
    assert int(end.output) <= 5  # bubblewrap's first process, the worker, and this shell with its two commands


def test_a_program_that_kills_the_worker_gets_a_new_sandbox_next_time(session: SandboxSession) -> None:
    end = session.run_python("import os; os.kill(os.getppid(), 9)", seconds=30, output_limit=10)
    assert (end.exit_code, end.errors) == (-9, "the program ended the process that ran it\n")
    assert session.run_python("print(2)", seconds=30, output_limit=10).output == "2\n"


def test_a_hidden_folder_is_empty_inside(session: SandboxSession, workspace: Path) -> None:
    hidden = workspace.parent / f"{workspace.name}-hidden"
    end = session.exec(["sh", "-c", f"ls -A {hidden}; touch {hidden}/a"], seconds=30, output_limit=1_000)
    assert end.output == ""
    assert "Read-only" in end.errors
    assert [path.name for path in hidden.iterdir()] == ["answer.txt"]


def test_the_pages_example_works(bubblewrap: None, capsys: pytest.CaptureFixture[str]) -> None:
    page = Path(__file__).parents[3].joinpath("docs", "sandbox.md").read_text(encoding="utf-8")
    example = page.partition("## A sandbox that stays open")[2].partition("```python\n")[2].partition("```")[0]
    exec(example, {})
    assert capsys.readouterr().out == "42\n\n0\n"
