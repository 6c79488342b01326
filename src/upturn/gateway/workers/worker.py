"""The process of a worker: ``python -m upturn.gateway.workers.worker MAX_BODY_BYTES CHANNEL LISTENING...``.

All but the first are inherited sockets: the connection to the main process, and those that clients connect to.
"""

import logging
import sys
from socket import socket

import uvicorn
import uvloop

from upturn.gateway.workers.application import WorkerApp
from upturn.gateway.workers.messages import Ready
from upturn.gateway.workers.process import keep_pauses_short, server_config


class _Server(uvicorn.Server):
    """Tells the main process when it serves."""

    def __init__(self, app: WorkerApp) -> None:
        super().__init__(server_config(app, has_lifespan=False))
        self._app = app

    async def startup(self, sockets: list[socket] | None = None) -> None:
        """Called by the server."""
        await super().startup(sockets)
        self._app.channel.send(Ready())


async def work(end: socket, listening: list[socket], max_body_bytes: int) -> None:
    """Serves until the main process says so, or is gone; or at SIGTERM. ``end``: of the connection to it."""

    def stop() -> None:
        server.should_exit = True

    app = WorkerApp(max_body_bytes, stop)
    server = _Server(app)
    await app.channel.connect(end)
    await server.serve(listening)
    await app.tries.disconnect()
    app.channel.close()


def main() -> None:
    """Runs the process."""
    limit, end, *listening = map(int, sys.argv[1:])
    logging.basicConfig(format="%(levelname)s: %(message)s", level=logging.WARNING)
    keep_pauses_short()
    uvloop.run(work(socket(fileno=end), [socket(fileno=one) for one in listening], limit))


if __name__ == "__main__":
    main()
