"""Where isolation cannot be shown nothing runs, and the error says what to install or allow."""

import asyncio
import os
from pathlib import Path

import pytest

from upturn.config import SandboxLimits
from upturn.environments.sandbox import Bubblewrap
from upturn.environments.sandbox.command import Call, CommandEnd, Launch, run_supervised
from upturn.environments.sandbox.cure import Host, cure
from upturn.environments.sandbox.seccomp import seccomp_filter
from upturn.environments.sandbox.self_test import show_isolation
from upturn.errors import SandboxError

PLAIN = Host(is_restricted_by_apparmor=False, has_user_namespaces=True, is_container=False)


def executable(path: Path, script: str) -> str:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def run(sandbox: Bubblewrap) -> CommandEnd:
    """A command that leaves a file in the workspace."""
    given = {"PATH": "/usr/bin:/bin"}
    return asyncio.run(
        sandbox.exec(("touch", "ran"), environment=given, input=b"", folder=sandbox.workspace, output_limit=100)
    )


def test_the_test_finds_what_is_possible_without_a_sandbox() -> None:
    async def unprotected(workspace: Path, call: Call) -> CommandEnd:
        return await run_supervised(call, Launch())

    with pytest.raises(SandboxError) as caught:
        asyncio.run(show_isolation(unprotected, SandboxLimits()))
    start = "the sandbox does not isolate, so nothing runs in it: "
    assert str(caught.value).startswith(start)
    possible = str(caught.value).removeprefix(start).split("; ")
    assert {
        "the host's loopback could be reached",
        "an abstract socket of the host could be reached",
        "a file of the host outside the workspace could be read",
        "RLIMIT_NPROC was not 256",
        "RLIMIT_FSIZE was not 268435456",
    } <= set(possible)
    if os.getuid() == 0:
        assert "/proc/sys/kernel/core_pattern could be opened for writing" in possible
        assert "/usr could be written" in possible


def test_a_missing_bubblewrap_runs_nothing(workspace: Path) -> None:
    with pytest.raises(
        SandboxError, match=r"'no-such-bwrap' is no program of PATH, .* not run; install bubblewrap"
    ):
        run(Bubblewrap(workspace, program="no-such-bwrap"))
    assert list(workspace.iterdir()) == []


def test_a_bubblewrap_that_fails_runs_nothing(workspace: Path) -> None:
    program = executable(workspace / "bwrap", "echo 'bwrap: setting up uid map: Permission denied' >&2; exit 1")
    sandbox = Bubblewrap(workspace, program=program)
    for _ in range(2):  # the failure is not taken for a passed test
        with pytest.raises(SandboxError, match=r"the command has not run: .* Permission denied; "):
            run(sandbox)
    assert [path.name for path in workspace.iterdir()] == ["bwrap"]


def test_a_bubblewrap_that_does_nothing_runs_nothing(workspace: Path) -> None:
    program = executable(workspace / "bwrap", "exit 0")
    with pytest.raises(SandboxError, match="the command has not run: "):
        run(Bubblewrap(workspace, program=program))


@pytest.mark.parametrize(
    ("message", "host", "expected"),
    [
        ("bwrap: Unknown option --disable-userns", PLAIN, "this bubblewrap is too old"),
        ("bwrap: Can't find source path /root/x: Permission denied", PLAIN, "user 65534, as whom root's sandboxes"),
        ("bwrap: No permissions", Host(False, False, False), "the kernel's user namespaces are turned off: sysctl"),
        ("bwrap: Creating new namespace failed", Host(False, True, True), "the container's profile forbids"),
        ("bwrap: setting up uid map", Host(True, True, False), "AppArmor keeps programs from"),
        ("bwrap: setting up uid map", PLAIN, "docs/sandbox.md has the steps"),
        ("bwrap: other", Host(True, True, True), "docs/sandbox.md has the steps"),
    ],
)
def test_errors_say_what_to_do(message: str, host: Host, expected: str) -> None:
    assert cure(message, host).startswith(expected)


def test_without_libseccomp_nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("upturn.environments.sandbox.seccomp._LIBRARY", "libno-such.so.2")
    seccomp_filter.cache_clear()
    try:
        with pytest.raises(SandboxError, match=r"needs libno-such\.so\.2, .*apt-get install libseccomp2"):
            seccomp_filter()
    finally:
        seccomp_filter.cache_clear()
