"""The default sandbox, bubblewrap: no network but the given ports, no files but the workspace and read-only ones.

Root starts it as an ordinary user: a sandbox of root would have root's rights over ``/proc/sys``. Order of a
command: the supervisor (``supervisor``) becomes that user and starts bubblewrap, which starts ``enter``, which
sets the limits and starts the program. Before the first one, ``self_test`` shows that isolation holds, or nothing
runs.
"""

import os
import shutil
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from upturn.config import SandboxLimits
from upturn.environments.sandbox.command import Call, CommandEnd, Launch, run_supervised, start_error
from upturn.environments.sandbox.cure import cure, this_host
from upturn.environments.sandbox.host_ports import HostPorts
from upturn.environments.sandbox.mounts import Mounts, holds_more, mounts_for
from upturn.environments.sandbox.nameless_file import nameless_file
from upturn.environments.sandbox.seccomp import seccomp_filter
from upturn.environments.sandbox.self_test import PROBE, show_isolation
from upturn.environments.sandbox.supervisor import STAGE
from upturn.environments.sandbox.workspace_file import read_workspace_file, write_workspace_file
from upturn.errors import SandboxError

ORDINARY_USER = 65534
"""``nobody``, and its group, whom root's sandboxes run as: every user namespace has it."""
_USER_INSIDE = 1000
_CAP_SYS_ADMIN = 1 << 21
"""Of ``linux/capability.h``."""
_ENTER = Path(__file__).with_name("enter.py")
_ENTER_INSIDE = "/run/upturn/enter.py"
_ACCOUNTS = b"user:x:1000:1000::/tmp:/bin/sh\nnobody:x:65534:65534::/nonexistent:/bin/false\n"
_GROUPS = b"user:x:1000:\nnogroup:x:65534:\n"
_HOSTS = b"127.0.0.1 localhost\n"
_FILES = {"/etc/passwd": _ACCOUNTS, "/etc/group": _GROUPS, "/etc/hosts": _HOSTS}


_isolating = set[str]()
"""Programs that have passed the test in this process."""


@dataclass(frozen=True, slots=True)
class Bubblewrap:
    """A sandbox over one workspace; usable for several commands, also at the same time."""

    workspace: Path
    """The only folder of the host that the program may write. Root gives it to ``ORDINARY_USER`` with all in it. It
    must not hold the current folder, the home, the interpreter or the system."""
    ports: tuple[int, ...] = ()
    """Of the host's loopback, from 1024, that the program reaches at the same ports of its own."""
    readable: tuple[Path, ...] = ()
    """More folders and files that the program may read. Those in the workspace it may then only read."""
    limits: SandboxLimits = field(default_factory=SandboxLimits)
    program: str = "bwrap"
    """Name or path of bubblewrap."""
    hidden: tuple[Path, ...] = ()
    """Folders that the program sees as empty, such as one with answers among the packages."""

    async def exec(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        input: bytes,  # noqa: A002
        folder: Path,
        output_limit: int,
        timeout_seconds: float | None = None,
    ) -> CommandEnd:
        """As ``Sandbox.exec``."""
        workspace = self.checked_workspace()
        if not folder.resolve().is_relative_to(workspace):
            raise SandboxError(f"the folder {str(folder)!r} must be in the sandbox's workspace, {str(workspace)!r}")
        await self.check()
        call = Call(tuple(command), environment, input, folder.resolve(), output_limit, timeout_seconds)
        return await self._run(workspace, call)

    def checked_workspace(self) -> Path:
        """The workspace's real path; raises SandboxError where it holds more than a program may change."""
        workspace = self.workspace.resolve()
        kept = holds_more(workspace)
        if kept is not None:
            raise SandboxError(
                f"the workspace {str(workspace)!r} holds {str(kept)!r}, which the program could change: give the "
                "program a folder of its own"
            )
        return workspace

    async def check(self) -> None:
        """Tests once a process whether this bubblewrap isolates. Raises SandboxError: what to install or allow."""
        if self.program not in _isolating:
            if shutil.which(self.program) is None:
                raise SandboxError(
                    f"a sandbox needs bubblewrap, and {self.program!r} is no program of PATH, so the command has "
                    "not run; install bubblewrap 0.8 or newer: apt-get install bubblewrap, dnf install bubblewrap"
                )
            probing = replace(self, ports=(), readable=(PROBE,), hidden=())
            await show_isolation(probing._run, self.limits)
            _isolating.add(self.program)

    async def read_file(self, path: str) -> bytes:
        """As ``Sandbox.read_file``; at most 1 GiB."""
        return read_workspace_file(self.workspace, path)

    async def write_file(self, path: str, contents: bytes) -> None:
        """As ``Sandbox.write_file``."""
        write_workspace_file(self.workspace, path, contents)

    async def _run(self, workspace: Path, call: Call) -> CommandEnd:
        """Raises SandboxError where bubblewrap does not start, OSError where the command does not."""
        if os.getuid() == 0:
            give_away(workspace)
        ours, theirs = socket.socketpair()
        with ours, theirs, launched(self, workspace, call, theirs.fileno()) as (inside, launch):
            async with HostPorts(ours, self.ports) as ports:
                try:
                    end = await run_supervised(inside, launch)
                except OSError as exc:
                    raise SandboxError(start_failure(str(exc))) from exc
                report = ports.report()
        if report is None and end.exit_code is not None:
            raise SandboxError(start_failure(f"bubblewrap ended with {end.exit_code}: {end.errors.strip()[-500:]}"))
        if report:
            raise start_error(call.command, int(report))
        return end


def _may_mount() -> bool:
    """Root of a container may not; the paths are reached then where the ordinary user may enter their folders."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return bool(int(status.partition("CapEff:")[2].split()[0], 16) & _CAP_SYS_ADMIN)


@contextmanager
def launched(
    sandbox: Bubblewrap,
    workspace: Path,
    call: Call,
    channel: int,
    *,
    files: Mapping[str, bytes] | None = None,
    passed: Sequence[int] = (),
) -> Iterator[tuple[Call, Launch]]:
    """Bubblewrap's call for the given one, and how the supervisor launches it; descriptors are open meanwhile.

    ``channel``: a descriptor that ``enter`` reports to. ``files``: further ones, by their paths inside. ``passed``:
    descriptors that the program gets.
    """
    mounts = mounts_for(workspace, call.command, call.environment, sandbox.readable)
    paths = tuple(map(str, (*mounts.readable, workspace, *mounts.protected, _ENTER)))
    launch, sources = Launch(user=ORDINARY_USER if os.getuid() == 0 else None), paths
    if os.getuid() == 0 and _may_mount():
        launch, sources = replace(launch, staged=paths), tuple(f"{STAGE}/{i}" for i in range(len(paths)))
    with ExitStack() as opened:
        seccomp = opened.enter_context(nameless_file(seccomp_filter()))
        contents = {**_FILES, **(files or {})}
        made = {path: opened.enter_context(nameless_file(content)) for path, content in contents.items()}
        command = (
            # its path: when root has become another user, the supervisor may read no modules to look it up
            *(
                shutil.which(sandbox.program) or sandbox.program,
                *_arguments(mounts, sources, workspace, sandbox),
            ),
            *(part for path, number in made.items() for part in ("--ro-bind-data", str(number), path)),
            *("--remount-ro", "/", "--seccomp", str(seccomp), "--chdir", str(call.folder), "--"),
            *(os.path.realpath(sys.executable), "-I", "-S", _ENTER_INSIDE, str(channel)),
            *(",".join(map(str, numbers)) for numbers in (sandbox.ports, _limits(sandbox.limits))),
            *call.command,
        )
        kept = (channel, seccomp, *made.values(), *passed)
        yield replace(call, command=command, folder=Path("/")), replace(launch, passed=kept)


def start_failure(message: str) -> str:
    """The message of a sandbox that does not start, with the cure."""
    return f"the sandbox does not start, so the command has not run: {message}; {cure(message, this_host())}"


def give_away(workspace: Path) -> None:
    """Makes the workspace and all that lies in it the ordinary user's. For root."""
    for _, folders, files, descriptor in os.fwalk(workspace):
        os.chown(".", ORDINARY_USER, ORDINARY_USER, dir_fd=descriptor)
        for name in (*folders, *files):
            with suppress(FileNotFoundError):  # another command over the workspace has removed it
                os.chown(name, ORDINARY_USER, ORDINARY_USER, dir_fd=descriptor, follow_symlinks=False)


def sandbox_environment(workspace: Path) -> dict[str, str]:
    """Variables for a program in a sandbox: none of the host's, which may hold secrets, but ``PATH``.

    The folder of this interpreter is its last part: a ``python`` of the others may be one that the sandbox does not
    show.
    """
    path = os.pathsep.join((os.environ.get("PATH", os.defpath), str(Path(sys.executable).parent)))
    return {"PATH": path, "HOME": str(workspace), "LANG": "C.UTF-8"}


def _arguments(mounts: Mounts, sources: Sequence[str], workspace: Path, sandbox: Bubblewrap) -> Iterator[str]:
    """Bubblewrap's, up to ``/``'s remount.

    ``sources``: of ``mounts.readable``, the workspace, ``mounts.protected``, ``enter``.
    """
    limits = sandbox.limits
    yield from ("--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--new-session")
    yield from ("--cap-drop", "ALL", "--hostname", "sandbox")
    yield from ("--uid", str(_USER_INSIDE), "--gid", str(_USER_INSIDE))
    yield from ("--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys", "--dev", "/dev")
    yield from ("--size", str(limits.temporary_bytes // 4), "--perms", "1777", "--tmpfs", "/dev/shm")
    yield from ("--remount-ro", "/dev")
    yield from ("--size", str(limits.temporary_bytes), "--perms", "1777", "--tmpfs", "/tmp")
    for path, target in mounts.links.items():
        yield from ("--symlink", target, path)
    places = (*mounts.readable, workspace, *mounts.protected, _ENTER_INSIDE)
    for place, source in zip(places, sources, strict=True):
        yield from ("--bind" if place == workspace else "--ro-bind", source, str(place))
    for folder in sandbox.hidden:
        if any(folder.resolve().is_relative_to(place) for place in mounts.readable):
            yield from ("--size", "4096", "--tmpfs", str(folder.resolve()), "--remount-ro", str(folder.resolve()))


def _limits(limits: SandboxLimits) -> tuple[int, ...]:
    """In ``enter``'s order."""
    return (limits.memory_bytes, limits.file_bytes, limits.max_open_files, limits.max_processes)
