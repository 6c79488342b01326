"""Runs inside a sandbox, before the program: sets its limits and opens its ports. Standard library only.

Limits are set here, not before bubblewrap starts: a limit of processes would count the other processes of the user
then. The ports' listening sockets are sent to the host, which accepts their connections: they belong to the network
of the sandbox, so the program reaches them at 127.0.0.1, and no process of the sandbox has to forward anything.
"""

import os
import resource
import socket
import sys
from pathlib import Path

ENTERED = b"entered "
"""Sent when everything but the limits is set up."""
_WAITING_CONNECTIONS = 128
_LIMITS = (resource.RLIMIT_AS, resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC)


def main() -> None:
    """``enter.py CHANNEL PORTS LIMITS COMMAND...``: a descriptor, and numbers separated by commas.

    Sends ``entered`` with the ports' sockets over the channel, then the number of the OSError where the command
    cannot start.
    """
    channel = socket.socket(fileno=int(sys.argv[1]))
    ports, limits = ([int(number) for number in text.split(",") if number] for text in sys.argv[2:4])
    command = sys.argv[4:]
    listeners = [socket.create_server(("127.0.0.1", port), backlog=_WAITING_CONNECTIONS) for port in ports]
    socket.send_fds(channel, [ENTERED], [listener.fileno() for listener in listeners])
    environment = Path("/proc/self/environ").read_bytes()  # as given, without what Python adds (PEP 538)
    pairs = (item.partition(b"=") for item in environment.split(b"\0") if item)
    variables = {name: value for name, _, value in pairs}
    Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")  # ended first where memory runs out
    channel.set_inheritable(False)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for limit, most in zip(_LIMITS, limits, strict=True):
        resource.setrlimit(limit, (most, most))
    try:
        os.execvpe(command[0], command, variables)
    except OSError as exc:
        channel.send(b"%d" % (exc.errno or 0))
        os._exit(1)


if __name__ == "__main__":
    main()
