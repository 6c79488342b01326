"""A server that plays a scripted model behind every dialect and records the requests."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, NamedTuple, TypeAlias

from upturn.dialects import DIALECTS, ModelAnswer, ModelRequest

Script: TypeAlias = Callable[[ModelRequest], ModelAnswer | dict[str, Any] | tuple[int, str]]
"""The answer, as a record or as JSON of the dialect, or a status with a body."""


class Served(NamedTuple):
    """A running server."""

    url: str
    bodies: list[dict[str, Any]]
    headers: list[dict[str, str]]


@contextmanager
def serving(script: Script) -> Iterator[Served]:
    """The script behind ``/v1`` and the path of every dialect."""
    bodies: list[dict[str, Any]] = []
    headers: list[dict[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            dialect = next(known for known in DIALECTS.values() if self.path == f"/v1{known.path}")
            bodies.append(json.loads(body))
            headers.append({name.lower(): value for name, value in self.headers.items()})
            request = dialect.read_request(body)
            answer = script(request)
            status, content = 200, ""
            if isinstance(answer, tuple):
                status, content = answer
            else:
                wire = answer if isinstance(answer, dict) else dialect.write_answer(answer, request)
                content = json.dumps(wire)
            self.send_response(status)
            self.send_header("content-length", str(len(content.encode())))
            self.end_headers()
            self.wfile.write(content.encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield Served(f"http://127.0.0.1:{server.server_port}/v1", bodies, headers)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
