"""Shows that a sandbox isolates before anything untrusted runs in it; where it cannot, nothing runs."""

import json
import secrets
import socket
import sys
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TypeAlias

from upturn.config import SandboxLimits
from upturn.environments.sandbox.command import Call, CommandEnd
from upturn.errors import SandboxError

PROBE = Path(__file__).with_name("probe.py")
_SECONDS = 30.0
_OUTPUT = 100_000

RunIn: TypeAlias = Callable[[Path, Call], Awaitable[CommandEnd]]
"""Runs a call in a sandbox over a workspace in which ``PROBE`` is readable."""


async def show_isolation(run: RunIn, limits: SandboxLimits) -> None:
    """Returns when the probe could do nothing that must not be possible. Raises SandboxError with what it could."""
    with ExitStack() as host:
        workspace = Path(host.enter_context(tempfile.TemporaryDirectory(prefix="upturn-sandbox-")))
        secret = host.enter_context(tempfile.NamedTemporaryFile(prefix="upturn-secret-"))
        Path(secret.name).chmod(0o644)  # so that only the sandbox keeps another user from it
        listener = host.enter_context(socket.create_server(("127.0.0.1", 0)))
        abstract = host.enter_context(socket.socket(socket.AF_UNIX))
        name = f"upturn-{secrets.token_hex(8)}"
        abstract.bind("\0" + name)
        abstract.listen()
        facts = {
            "port": listener.getsockname()[1],
            "abstract": name,
            "secret": secret.name,
            "limits": {"RLIMIT_NPROC": limits.max_processes, "RLIMIT_FSIZE": limits.file_bytes},
        }
        command = (str(Path(sys.executable).resolve()), "-I", "-S", str(PROBE))
        call = Call(command, {}, json.dumps(facts).encode(), workspace, _OUTPUT, _SECONDS)
        end = await run(workspace, call)
    if end.exit_code != 0:
        said = end.errors.strip()[-500:]
        raise SandboxError(f"the sandbox's test ended with {end.exit_code}, so nothing runs in it: {said}")
    possible = json.loads(end.output)
    if possible:
        raise SandboxError(f"the sandbox does not isolate, so nothing runs in it: {'; '.join(possible)}")
