"""Runs inside a sandbox, before the program: sets its limits and opens its ports. Standard library only.

Limits are set here, not before bubblewrap starts: a limit of processes would count the other processes of the user
then. The ports' listening sockets are sent to the host, which accepts their connections: they belong to the network
of the sandbox, so the program reaches them at 127.0.0.1, and no process of the sandbox has to forward anything.

As ``supervisor``, it imports only what takes no time; ``_socket`` is ``socket`` without its conveniences.
"""

import _socket as socket
import os
import resource
import sys

ENTERED = b"entered "
"""Sent when everything but the limits is set up."""
_WAITING_CONNECTIONS = 128
_LIMITS = (resource.RLIMIT_AS, resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC)
_DESCRIPTOR_BYTES = 4


def main() -> None:
    """``enter.py CHANNEL PORTS LIMITS COMMAND...``: a descriptor, and numbers separated by commas.

    Sends ``entered`` with the ports' sockets over the channel, then the number of the OSError where the command
    cannot start.
    """
    channel = int(sys.argv[1])
    ports, limits = ([int(number) for number in text.split(",") if number] for text in sys.argv[2:4])
    command = sys.argv[4:]
    _send(channel, [_listening(port) for port in ports])
    with open("/proc/self/environ", "rb") as file:  # noqa: PTH123  as given, without what Python adds (PEP 538)
        pairs = [item.partition(b"=") for item in file.read().split(b"\0") if item]
    with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:  # noqa: PTH123  ended first where memory runs out
        file.write("1000")
    os.set_inheritable(channel, False)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for limit, most in zip(_LIMITS, limits, strict=True):
        resource.setrlimit(limit, (most, most))
    try:
        os.execvpe(command[0], command, {name: value for name, _, value in pairs})
    except OSError as exc:
        os.write(channel, b"%d" % (exc.errno or 0))
        os._exit(1)


def _listening(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.bind(("127.0.0.1", port))
    listener.listen(_WAITING_CONNECTIONS)
    return listener


def _send(channel: int, listeners: list[socket.socket]) -> None:
    descriptors = b"".join(listener.fileno().to_bytes(_DESCRIPTOR_BYTES, sys.byteorder) for listener in listeners)
    attached = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)] if listeners else []
    sending = socket.socket(fileno=channel)
    sending.sendmsg([ENTERED], attached)
    sending.detach()


if __name__ == "__main__":
    main()
