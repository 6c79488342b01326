"""Runs in a sandbox and tries what must not be possible there. Standard library only.

Standard input: JSON with ``port`` (the host's loopback listens there), ``abstract`` (the name of an abstract
socket of the host), ``secret`` (a file of the host outside the workspace) and ``limits`` (by name). Standard
output: a JSON list of what was possible, in words.
"""

import ctypes
import json
import os
import resource
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

_CLONE_NEWUSER = 0x10000000
_STATUS = {"NoNewPrivs": "1", "Seccomp": "2", "CapEff": "0" * 16, "CapBnd": "0" * 16}
_READ_ONLY = ("/", "/usr", "/etc", "/dev", "/proc/sys/kernel", "/run/upturn")
_MOST_PROCESSES = 8
"""Of the sandbox before the program starts its own: bubblewrap's and this one."""


def main() -> None:
    """Prints what ``possibilities`` yields."""
    print(json.dumps(list(possibilities(json.load(sys.stdin)))))  # noqa: T201  its answer


def possibilities(facts: Mapping[str, Any]) -> Iterator[str]:
    """Yields what it could do."""
    if _connects(socket.AF_INET, ("127.0.0.1", facts["port"])):
        yield "the host's loopback could be reached"
    if _connects(socket.AF_UNIX, "\0" + facts["abstract"]):
        yield "an abstract socket of the host could be reached"
    with suppress(OSError):
        Path(facts["secret"]).read_bytes()
        yield "a file of the host outside the workspace could be read"
    if sum(name.isdecimal() for name in os.listdir("/proc")) > _MOST_PROCESSES:  # noqa: PTH208
        yield "processes of the host could be seen"
    with suppress(OSError), Path("/proc/sys/kernel/core_pattern").open("r+b"):
        yield "/proc/sys/kernel/core_pattern could be opened for writing"
    for folder in _READ_ONLY:
        if os.access(folder, os.W_OK):
            yield f"{folder} could be written"
    if ctypes.CDLL(None).unshare(_CLONE_NEWUSER) == 0:
        yield "a user namespace could be made"
    if set(os.listdir("/proc/self/fd")) - {"0", "1", "2", "3"}:  # noqa: PTH208  3 is the listing
        yield "file descriptors of the host were open"
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text("ascii").splitlines())
    for name, expected in _STATUS.items():
        if status.get(name, "").strip() != expected:
            yield f"{name} was {status.get(name, 'missing').strip()}, not {expected}"
    for name, most in facts["limits"].items():
        if resource.getrlimit(getattr(resource, name)) != (most, most):
            yield f"{name} was not {most}"


def _connects(family: int, address: Any) -> bool:
    with closing(socket.socket(family)) as client:
        client.settimeout(1.0)
        return client.connect_ex(address) == 0


if __name__ == "__main__":
    main()
