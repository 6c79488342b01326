"""A vendor's server with the three dialects, written by hand from their documents: it shares no code with ours.

It is strict where vendors are: calls and results must match, thoughts must come back with their signature. The
answers are those of ``brain``. Streams cut texts and arguments into small pieces.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, ClassVar

from tests.gateway.clients import vendor_chat, vendor_messages, vendor_responses
from tests.gateway.clients.brain import reply_to
from tests.gateway.clients.refusal import RefusedError

KEY = "vendor-key"
FORMS: Any = {
    "/v1/chat/completions": vendor_chat,
    "/v1/responses": vendor_responses,
    "/v1/messages": vendor_messages,
}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    requests: ClassVar[list[tuple[str, dict[str, Any]]]]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.requests.append((self.path, body))
        keys = (self.headers.get("x-api-key"), self.headers.get("authorization", "").removeprefix("Bearer "))
        if KEY not in keys:
            self._send(401, {"error": {"message": "wrong key"}})
        elif self.path == "/v1/embeddings":
            texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
            data = [
                {"object": "embedding", "index": index, "embedding": [float(len(text)), 1.0]}
                for index, text in enumerate(texts)
            ]
            usage = {"prompt_tokens": 3, "total_tokens": 3}
            self._send(200, {"object": "list", "data": data, "model": body["model"], "usage": usage})
        else:
            self._answer(FORMS[self.path], body)

    def _answer(self, form: Any, body: dict[str, Any]) -> None:
        try:
            question = form.question(body)
        except RefusedError as exc:
            self._send(400, {"error": {"message": str(exc), "type": "invalid_request_error"}})
            return
        reply = reply_to(question)
        if not body.get("stream"):
            self._send(200, form.whole(reply, body))
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        for event in form.stream(reply, body):
            self.wfile.write(event.encode())
        self.close_connection = True

    def _send(self, status: int, body: dict[str, Any]) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  as in the base class
        """Writes nothing."""


class Vendor:
    """A running server."""

    def __init__(self, port: int, requests: list[tuple[str, dict[str, Any]]]) -> None:
        self.url = f"http://127.0.0.1:{port}/v1"
        self.requests = requests
        """Paths and bodies."""


@contextmanager
def vendor() -> Iterator[Vendor]:
    """A server in a thread."""
    requests: list[tuple[str, dict[str, Any]]] = []
    handler = type("Handler", (_Handler,), {"requests": requests})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield Vendor(server.server_port, requests)
        finally:
            server.shutdown()
            thread.join()
