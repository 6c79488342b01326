"""What programs in a sandbox can and cannot do; every hole that was once measured has its test."""

import asyncio
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import textwrap
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.environments.sandbox.test_command import leftovers
from upturn.config import SandboxLimits
from upturn.environments.sandbox import Bubblewrap, CommandEnd, sandbox_environment
from upturn.errors import SandboxError

pytestmark = pytest.mark.usefixtures("bubblewrap")
MIB = 2**20
OWN = re.compile("")
"""Each operating system has its own words."""


def run(workspace: Path, *command: str, sandbox: Bubblewrap | None = None, **options: Any) -> CommandEnd:
    used = sandbox or Bubblewrap(workspace)
    given: dict[str, Any] = {
        "environment": sandbox_environment(workspace),
        "input": b"",
        "folder": workspace,
        "output_limit": 10_000,
        "timeout_seconds": 30.0,
    }
    return asyncio.run(used.exec(command, **(given | options)))


def python(workspace: Path, program: str, *arguments: str, **options: Any) -> str:
    """The program's output; it must succeed."""
    end = run(workspace, sys.executable, "-c", textwrap.dedent(program), *arguments, **options)
    assert (end.exit_code, end.errors) == (0, "")
    return end.output


def shell(workspace: Path, script: str, **options: Any) -> CommandEnd:
    return run(workspace, "sh", "-c", script, **options)


def test_python_is_found_where_that_of_the_path_is_not_in_the_sandbox(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    environment = sandbox_environment(workspace)
    monkeypatch.undo()
    end = run(workspace, Path(sys.executable).name, "-c", "print(5)", environment=environment)
    assert (end.exit_code, end.output) == (0, "5\n")


def test_it_runs_a_command_over_the_workspace(workspace: Path) -> None:
    (workspace / "task.txt").write_text("the task")
    (workspace / "below").mkdir()
    end = shell(
        workspace, "cat ../task.txt -; pwd; id -un; touch new", input=b"\ninput\n", folder=workspace / "below"
    )
    assert end == CommandEnd(0, f"the task\ninput\n{workspace}/below\nuser\n", "", False)
    assert (workspace / "below" / "new").stat().st_uid == (os.getuid() or 65534)
    assert shell(workspace, "exit 7").exit_code == 7
    with pytest.raises(FileNotFoundError, match="the command 'no-such-command' cannot start"):
        run(workspace, "no-such-command")
    with pytest.raises(SandboxError, match="must be in the sandbox's workspace"):
        shell(workspace, "pwd", folder=Path("/"))


def test_it_gets_the_given_environment_and_no_more(workspace: Path) -> None:
    program = "import os; print(sorted(os.environ.items()))"
    given = {"A": "ä", "PATH": "/usr/bin"}
    output = run(workspace, sys.executable, "-I", "-S", "-X", "utf8", "-c", program, environment=given).output
    expected = [("A", "ä"), ("LC_CTYPE", "C.UTF-8"), ("PATH", "/usr/bin"), ("PWD", str(workspace))]
    assert eval(output) in (expected, [pair for pair in expected if pair[0] != "LC_CTYPE"])


def test_packages_of_the_interpreter_are_importable(workspace: Path) -> None:
    assert python(workspace, "import numpy; print(numpy.ones(2).sum())") == "2.0\n"


def test_a_port_of_the_host_is_reached_at_the_same_port(workspace: Path) -> None:
    """As a client of the OpenAI API does with ``OPENAI_BASE_URL=http://127.0.0.1:PORT/v1``."""
    program = """
        import sys, urllib.request
        for size in (1, 3_000_000):
            request = urllib.request.Request(f"http://127.0.0.1:{sys.argv[1]}/v1", data=b"x" * size)
            with urllib.request.urlopen(request) as answer:
                print(len(answer.read()))
    """

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].split()[0])
        body = await reader.readexactly(length)
        writer.write(
            b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % (2 * length) + body * 2
        )
        await writer.drain()
        writer.close()

    async def serve() -> tuple[CommandEnd, CommandEnd]:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        common: dict[str, Any] = {
            "environment": sandbox_environment(workspace),
            "input": b"",
            "folder": workspace,
            "output_limit": 1000,
        }
        command = (sys.executable, "-c", textwrap.dedent(program), str(port))
        async with server:
            reached = await Bubblewrap(workspace, (port,)).exec(command, **common)
            return reached, await Bubblewrap(workspace).exec(command, **common)

    before = leftovers()
    reached, alone = asyncio.run(serve())
    assert reached == CommandEnd(0, "2\n6000000\n", "", False)
    assert alone.exit_code == 1
    assert "Connection refused" in alone.errors
    assert leftovers() == before


def test_nothing_of_the_host_is_reached(workspace: Path) -> None:
    """Loopback, abstract sockets (only the network namespace blocks them), DNS, an address elsewhere."""
    program = """
        import socket, sys
        port, name = sys.argv[1:]
        for family, address in (
            (socket.AF_INET, ("127.0.0.1", int(port))),
            (socket.AF_UNIX, chr(0) + name),
            (socket.AF_INET, ("192.0.2.1", 80)),
        ):
            with socket.socket(family) as client:
                client.settimeout(5)
                print(client.connect_ex(address) != 0)
        try:
            socket.getaddrinfo("example.com", 80)
        except socket.gaierror:
            print("no name")
        print(socket.gethostbyname("localhost"), socket.gethostname())
    """
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket(socket.AF_UNIX) as abstract:
        name = f"upturn-test-{os.getpid()}"
        abstract.bind("\0" + name)
        abstract.listen()
        output = python(workspace, program, str(listener.getsockname()[1]), name)
    assert output == "True\nTrue\nTrue\nno name\n127.0.0.1 sandbox\n"


def test_files_of_the_host_are_neither_seen_nor_written(workspace: Path, tmp_path: Path) -> None:
    secret = Path(f"{workspace}-secret")
    secret.write_text("secret")
    secret.chmod(0o644)
    try:
        end = shell(workspace, f"cat {secret}; ls /home /root/.ssh /etc/shadow /sys; echo done")
        assert end.output == "done\n"
        assert end.errors.count("No such file") == 5
        written = "/x /usr/x /etc/x /dev/x /proc/x /run/x " + sys.base_prefix + "/x"
        end = shell(workspace, f"for path in {written}; do echo x 2>/dev/null > $path || echo refused; done")
        assert end.output.splitlines() == ["refused"] * 7
        shell(workspace, f"ln -s {secret} link; ln -s /etc/passwd account; ln -s / root; mkfifo pipe")
        sandbox = Bubblewrap(workspace)
        for path in ("link", "account", "root/etc/passwd", "../x", str(secret), "pipe", ".", ""):
            with pytest.raises(OSError, match=OWN):
                asyncio.run(sandbox.read_file(path))
            with pytest.raises(OSError, match=OWN):
                asyncio.run(sandbox.write_file(path, b"changed"))
        assert secret.read_text() == "secret"
    finally:
        secret.unlink()


def test_what_is_readable_in_the_workspace_is_not_written(workspace: Path) -> None:
    """Such as tests that a program must pass."""
    extra = Path(f"{workspace}-extra")
    try:
        for folder in (extra, workspace / "tests"):
            folder.mkdir()
            folder.joinpath("test.py").write_text("original\n")
        sandbox = Bubblewrap(workspace, readable=(workspace / "tests", extra, workspace / "missing"))
        script = (
            f"cat tests/test.py {extra}/test.py; echo x > tests/test.py; echo x > {extra}/new; mv tests away; ls"
        )
        end = shell(workspace, script, sandbox=sandbox)
        assert end.output == "original\noriginal\ntests\n"
        assert end.errors.count("Read-only file system") == 2
    finally:
        shutil.rmtree(extra)


@pytest.mark.parametrize("folder", ["/", "/usr", ".", "~", tempfile.gettempdir()])
def test_a_workspace_that_holds_more_is_refused(folder: str) -> None:
    """Root would give all that lies in it to the ordinary user."""
    path = Path(folder).expanduser()
    with pytest.raises(SandboxError, match="which the program could change: give the program a folder of its own"):
        run(path, "true")


def test_files_of_the_workspace_are_read_and_written(workspace: Path) -> None:
    sandbox = Bubblewrap(workspace)
    asyncio.run(sandbox.write_file("a/b/c.bin", b"\0\xff"))
    assert (
        shell(workspace, "od -An -tx1 a/b/c.bin; echo more >> a/b/c.bin; rm -f a/b/d; touch a/b/d").output
        == " 00 ff\n"
    )
    assert asyncio.run(sandbox.read_file("a/b/c.bin")) == b"\0\xffmore\n"
    asyncio.run(sandbox.write_file("a/b/c.bin", b"short"))
    assert asyncio.run(sandbox.read_file("a/b/c.bin")) == b"short"
    with pytest.raises(FileNotFoundError):
        asyncio.run(sandbox.read_file("missing"))


def test_it_is_no_root_and_makes_no_namespaces(workspace: Path) -> None:
    """Root's sandboxes could open ``core_pattern`` for writing; ``--disable-userns`` needs ``--unshare-user``."""
    program = """
        import ctypes, os
        try:
            open("/proc/sys/kernel/core_pattern", "r+b")
        except OSError as error:
            print(error.strerror)
        libc = ctypes.CDLL(None, use_errno=True)
        print([(libc.unshare(flag), os.strerror(ctypes.get_errno())) for flag in (0x10000000, 0x20000)])
        libc.mount(b"tmpfs", b"/tmp", b"tmpfs", 0, None)
        print(os.strerror(ctypes.get_errno()))
        print(os.getresuid(), os.getgroups())
        print(sorted(os.listdir("/proc/self/fd")))
    """
    refused = "Operation not permitted"
    first, namespaces, mount, user, descriptors = python(workspace, program).splitlines()
    assert first in ("Read-only file system", "Permission denied")
    assert namespaces == str([(-1, refused), (-1, refused)])
    assert mount == refused
    assert user == "(1000, 1000, 1000) []"
    assert descriptors == str(["0", "1", "2", "3"])  # 3 is the listing itself


def test_user_namespaces_are_off_also_without_the_filter(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    allow_all = struct.pack("HBBI", 0x06, 0, 0, 0x7FFF0000)  # one instruction: BPF_RET | BPF_K, SECCOMP_RET_ALLOW
    monkeypatch.setattr("upturn.environments.sandbox.bubblewrap.seccomp_filter", lambda: allow_all)
    program = """
        import ctypes, errno
        libc = ctypes.CDLL(None, use_errno=True)
        print(libc.unshare(0x10000000), errno.errorcode[ctypes.get_errno()])
    """
    assert python(workspace, program) == "-1 ENOSPC\n"  # user_namespaces(7): the limit was exceeded


def test_open_files_of_the_caller_are_not_inherited(workspace: Path) -> None:
    with Path("/etc/hostname").open() as file:
        os.set_inheritable(file.fileno(), True)
        end = shell(workspace, "ls /proc/self/fd | tr '\\n' ' '")
    assert end.output == "0 1 2 3 "


@pytest.mark.parametrize("folder", ["/tmp", "/dev/shm"])
def test_memory_file_systems_are_bounded(folder: str, workspace: Path) -> None:
    """``/dev/shm`` was unbounded: 300 MiB were written."""
    sandbox = Bubblewrap(workspace, limits=SandboxLimits(temporary_bytes=4 * MIB))
    most = 4 * MIB if folder == "/tmp" else MIB
    script = f"dd if=/dev/zero of={folder}/x bs=65536 count=1000 2>/dev/null; stat -c %s {folder}/x"
    assert shell(workspace, script, sandbox=sandbox).output == f"{most}\n"


def test_large_files_end_at_the_limit(workspace: Path) -> None:
    sandbox = Bubblewrap(workspace, limits=SandboxLimits(file_bytes=MIB))
    end = shell(workspace, "dd if=/dev/zero of=x bs=65536 count=1000 2>/dev/null; stat -c %s x", sandbox=sandbox)
    assert end.output == f"{MIB}\n"


def test_a_fork_bomb_is_bounded_and_ends(workspace: Path) -> None:
    """``RLIMIT_NPROC`` does not hold for root, and counted other processes of the user where set outside."""
    program = """
        import os, time
        children = 0
        try:
            while True:
                if os.fork() == 0:
                    time.sleep(300)
                children += 1
        except BlockingIOError:
            print(children < 20)
    """
    sandbox = Bubblewrap(workspace, limits=SandboxLimits(max_processes=20))
    before = leftovers()
    for _ in range(3):  # processes of the sandbox before do not count
        assert python(workspace, program, sandbox=sandbox) == "True\n"
    bomb = shell(workspace, "bomb() { bomb | bomb & }; bomb; sleep 300", sandbox=sandbox, timeout_seconds=0.5)
    assert bomb.exit_code in (None, 2)
    assert leftovers() == before


def test_a_memory_bomb_fails_alone(workspace: Path) -> None:
    sandbox = Bubblewrap(workspace, limits=SandboxLimits(memory_bytes=256 * MIB))
    program = """
        import mmap
        for take in (lambda: bytearray(2**29), lambda: mmap.mmap(-1, 2**29)):
            try:
                take()
            except (MemoryError, OSError) as error:
                print(type(error).__name__)
        print(open("/proc/self/oom_score_adj").read().strip())
    """
    assert python(workspace, program, sandbox=sandbox) == "MemoryError\nOSError\n1000\n"


def test_endless_output_is_cut(workspace: Path) -> None:
    end = shell(workspace, "yes | head -c 1000000; yes >&2", timeout_seconds=1.5, output_limit=1000)
    assert end.exit_code is None
    assert set(end.output + end.errors) <= set("y\n")
    assert max(len(end.output), len(end.errors)) <= 1000


@pytest.mark.slow
def test_nothing_is_left_of_a_thousand_attempts(workspace: Path) -> None:
    """Neither memory: it grows by less than 9 MiB, and 1,000 outputs of 10 kB would be more."""
    scripts = ("exit 3", "sleep 300", "yes", "(setsid sleep 300 &); exit 3")

    async def attempts(count: int) -> Counter[int | None]:
        places, ends = asyncio.Semaphore(8), Counter[int | None]()

        async def attempt(number: int) -> None:
            async with places:
                end = await Bubblewrap(workspace, (5000,)).exec(
                    ("sh", "-c", scripts[number % 4]),
                    environment=sandbox_environment(workspace),
                    input=b"",
                    folder=workspace,
                    output_limit=10_000,
                    timeout_seconds=0.3 if number % 4 in {1, 2} else None,
                )
                ends[end.exit_code] += 1

        await asyncio.gather(*map(attempt, range(count)))
        return ends

    asyncio.run(attempts(100))
    before, memory = leftovers(), resident_kilobytes()
    assert asyncio.run(attempts(1000)) == {3: 500, None: 500}
    assert leftovers() == before
    assert resident_kilobytes() - memory < 9 * 1024


def resident_kilobytes() -> int:
    return int(Path("/proc/self/status").read_text(encoding="ascii").partition("VmRSS:")[2].split()[0])


ORPHAN = '(setsid sh -c "exec 9> pipe; printf started >&9; sleep 300" &); sleep 300'


def test_orphans_end_with_the_cancelled_call(workspace: Path) -> None:
    os.mkfifo(workspace / "pipe")
    before = leftovers()

    async def cancelled() -> None:
        running = asyncio.ensure_future(
            Bubblewrap(workspace).exec(
                ("sh", "-c", ORPHAN),
                environment=sandbox_environment(workspace),
                input=b"",
                folder=workspace,
                output_limit=100,
            )
        )
        with await asyncio.to_thread((workspace / "pipe").open) as file:
            assert await asyncio.to_thread(file.read, 7) == "started"
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            assert file.read() == ""

    asyncio.run(cancelled())
    assert leftovers() == before


def test_orphans_end_with_the_killed_caller(workspace: Path) -> None:
    os.mkfifo(workspace / "pipe")
    caller = """
        import asyncio, sys
        from pathlib import Path
        from upturn.environments.sandbox import Bubblewrap, sandbox_environment
        folder = Path(sys.argv[1])
        given = {"environment": sandbox_environment(folder), "input": b"", "folder": folder, "output_limit": 9}
        asyncio.run(Bubblewrap(folder).exec(("sh", "-c", sys.argv[2]), **given))
    """
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(caller), str(workspace), ORPHAN])
    with (workspace / "pipe").open() as file:
        assert file.read(7) == "started"
        process.kill()
        process.wait()
        assert file.read() == ""


def test_the_pages_example_works(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = Path(__file__).parents[3].joinpath("docs", "sandbox.md").read_text(encoding="utf-8")
    example = page.partition("```python\n")[2].partition("```")[0]
    workspace.joinpath("workspace").mkdir()
    workspace.chmod(0o755)
    monkeypatch.chdir(workspace)
    exec(example, {})
    assert capsys.readouterr().out == "0 ran\n\nb'5'\n"


def test_a_virtual_environment_of_the_command_is_readable(workspace: Path, tmp_path: Path) -> None:
    home = Path(f"{workspace}-venv")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", "--symlinks", home], check=True)
    try:
        end = run(workspace, str(home / "bin" / "python"), "-c", "import sys; print(sys.prefix)")
        assert end == CommandEnd(0, f"{home}\n", "", False)
    finally:
        shutil.rmtree(home)
