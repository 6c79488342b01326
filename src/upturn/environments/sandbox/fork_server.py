"""Imports a program once and forks for each attempt, so that an import is paid once. Standard library only.

For each message on its channel, which carries five descriptors, it forks a supervisor (``supervisor``), which
forks the program's process. Descriptors: a JSON file with the attempt's variables and folder, standard input,
output and errors, and the supervisor's control socket. It ends when the channel is closed.
"""

import asyncio
import inspect
import json
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

READY = b"ready"
"""Sent when the program is imported."""
RUN = b"run"


def main() -> None:
    """``fork_server.py CHANNEL MODULE:FUNCTION``; ``CHANNEL``: a descriptor of a socket with message boundaries."""
    channel = socket.socket(fileno=int(sys.argv[1]))
    channel.set_inheritable(False)
    sys.path.insert(0, str(Path.cwd()))  # as ``python -m`` does
    supervise = _neighbour("supervisor").supervise
    module, _, name = sys.argv[2].partition(":")
    function = getattr(import_module(module), name)
    sys.argv[:] = [module]
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps the supervisors
    sys.stdout.flush()  # or each attempt writes what the import has written
    sys.stderr.flush()
    channel.send(READY)
    server = os.getpid()
    while True:
        said, descriptors, _, _ = socket.recv_fds(channel, len(RUN), 5)
        if not said:
            return
        if os.fork() == 0:
            channel.close()
            _attempt(supervise, function, server, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _attempt(
    supervise: Callable[..., None], function: Callable[..., Any], server: int, descriptors: list[int]
) -> None:
    """Does not return."""
    request, *standard, control = descriptors
    try:
        for number, descriptor in enumerate(standard):
            os.dup2(descriptor, number)
            os.close(descriptor)
        with os.fdopen(request, encoding="utf-8") as file:
            wanted = json.load(file)
        supervise(lambda: _call(function, wanted), control, server)
    finally:
        os._exit(0)


def _call(function: Callable[..., Any], wanted: dict[str, Any]) -> None:
    """Writes what the function returns: text as it is, None not at all, other values as JSON."""
    code = 1
    try:
        os.environ.clear()
        os.environ.update(wanted["environment"])
        os.chdir(wanted["folder"])
        arguments = [json.load(sys.stdin)] if inspect.signature(function).parameters else []
        answer = function(*arguments)
        if inspect.isawaitable(answer):
            answer = asyncio.run(_awaited(answer))
        if answer is not None:
            sys.stdout.write(answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False))
        code = 0
    except SystemExit as exc:
        code = exc.code if isinstance(exc.code, int) else int(exc.code is not None)
        if isinstance(exc.code, str):
            print(exc.code, file=sys.stderr)  # noqa: T201  as the interpreter does
    except BaseException:  # noqa: BLE001  the end of this process
        traceback.print_exc()
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code & 0xFF)


async def _awaited(answer: Any) -> Any:
    return await answer


def _neighbour(name: str) -> Any:
    """A module beside this file, without this folder among those that the program imports from."""
    spec = spec_from_file_location(f"_upturn_{name}", Path(__file__).with_name(f"{name}.py"))
    if spec is None or spec.loader is None:
        raise ImportError(f"{name}.py is missing beside {__file__}")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main()
