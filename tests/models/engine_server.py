"""An engine server of our own for the tests: any ``Model`` behind vLLM's or SGLang's dialect, with faults to order.

Requests are handled in threads and generated on one event loop, so that they are batched as they come.
"""

import asyncio
import json
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from upturn.models import Generation, GenerationRequest, Model

Load = Callable[[str, str], None]
"""``(name, folder)``: takes weights; raises where it cannot."""


@dataclass
class Engine:
    """What is served, what goes wrong, and what was asked."""

    model: Model
    version: str
    load: Load | None = None
    faults: list[Callable[["Engine", dict[str, Any]], dict[str, Any]]] = field(default_factory=list)
    """Applied to each answer to a generation request, in order."""
    refusals: list[tuple[int, str, Mapping[str, str]]] = field(default_factory=list)
    """Status, text and headers for the first requests, in place of answers."""
    delays: list[float] = field(default_factory=list)
    """Seconds that the first requests wait."""
    broken: int = 0
    """So many first answers break off within their body."""
    url: str = ""
    asked: list[tuple[str, dict[str, str], dict[str, Any]]] = field(default_factory=list)
    adapters: set[str] = field(default_factory=set)
    under_way: int = 0
    most_under_way: int = 0

    def answer(self, path: str, body: dict[str, Any], loop: asyncio.AbstractEventLoop) -> tuple[int, Any]:
        match path:
            case "/v1/completions":
                return self._completions(body, loop)
            case "/v1/models":
                return 200, {"object": "list", "data": [{"id": self.version, "object": "model"}]}
            case "/generate":
                return self._generate(body, loop)
            case "/v1/load_lora_adapter":
                return self._load_adapter(body)
            case "/v1/unload_lora_adapter":
                self.adapters.discard(body["lora_name"])
                return 200, "unloaded"
            case "/update_weights_from_disk":
                return self._update(body)
        return 404, {"detail": "Not Found"}

    def _completions(self, body: dict[str, Any], loop: asyncio.AbstractEventLoop) -> tuple[int, Any]:
        if body["model"] not in {self.version, *self.adapters}:
            return 404, {"error": {"message": f"The model `{body['model']}` does not exist."}}
        made = self._run(body["prompt"], body, body["max_tokens"], body["seed"], loop)
        answer = {
            "id": "cmpl-1",
            "object": "text_completion",
            "model": body["model"],
            "choices": [
                {
                    "index": 0,
                    "text": "",
                    "finish_reason": made.finish_reason,
                    "stop_reason": None,
                    "logprobs": {
                        "text_offset": [0] * len(made.token_ids),
                        "token_logprobs": list(made.logprobs),
                        "tokens": [f"token_id:{token}" for token in made.token_ids],
                        "top_logprobs": [{} for _ in made.token_ids],
                    },
                    "token_ids": list(made.token_ids),
                    "prompt_token_ids": list(body["prompt"]),
                }
            ],
            "usage": {"prompt_tokens": len(body["prompt"]), "completion_tokens": len(made.token_ids)},
        }
        return 200, self._spoiled(answer)

    def _generate(self, body: dict[str, Any], loop: asyncio.AbstractEventLoop) -> tuple[int, Any]:
        how = body["sampling_params"]
        made = self._run(body["input_ids"], how, how["max_new_tokens"], how["sampling_seed"], loop)
        answer = {
            "text": "",
            "output_ids": list(made.token_ids),
            "meta_info": {
                "id": "1",
                "finish_reason": {"type": made.finish_reason},
                "prompt_tokens": len(body["input_ids"]),
                "completion_tokens": len(made.token_ids),
                "weight_version": self.version,
                "output_token_logprobs": [
                    [logprob, token, None] for token, logprob in zip(made.token_ids, made.logprobs, strict=True)
                ],
            },
        }
        return 200, self._spoiled(answer)

    def _run(
        self, prompt: list[int], how: dict[str, Any], budget: int, seed: int, loop: asyncio.AbstractEventLoop
    ) -> Generation:
        stops = tuple(how["stop_token_ids"])
        request = GenerationRequest(
            tuple(prompt), budget, stops, how["temperature"], str(threading.get_ident()), (0, 0), seed
        )
        work: Awaitable[Generation] = self.model.generate(request)
        try:
            return asyncio.run_coroutine_threadsafe(work, loop).result()  # type: ignore[arg-type]
        finally:
            self.model.release(request.session)

    def _spoiled(self, answer: dict[str, Any]) -> dict[str, Any]:
        for fault in self.faults:
            answer = fault(self, answer)
        return answer

    def _load_adapter(self, body: dict[str, Any]) -> tuple[int, Any]:
        name = body["lora_name"]
        if name in self.adapters:
            return 400, {"error": {"message": f"The lora adapter '{name}' has already been loaded."}}
        problem = self._taken(name, body["lora_path"])
        if problem:
            return 404, {"error": {"message": problem}}
        self.adapters.add(name)
        return 200, f"Success: LoRA adapter '{name}' added successfully."

    def _update(self, body: dict[str, Any]) -> tuple[int, Any]:
        problem = self._taken(body["weight_version"], body["model_path"])
        if problem:
            return 400, {"success": False, "message": problem}
        self.version = body["weight_version"]
        return 200, {"success": True, "message": "Succeeded to update model weights."}

    def _taken(self, name: str, folder: str) -> str:
        if self.load is not None:
            try:
                self.load(name, folder)
            except OSError as exc:
                return f"No adapter found for {folder}: {exc}"
        return ""


@contextmanager
def serving(engine: Engine) -> Iterator[Engine]:
    """The engine at ``engine.url`` until the block ends."""
    loop = asyncio.new_event_loop()
    loop_thread = Thread(target=loop.run_forever)
    loop_thread.start()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"  # connections are kept, as real engines do

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or "{}")
            engine.asked.append((self.path, {name.lower(): text for name, text in self.headers.items()}, body))
            engine.under_way += 1
            engine.most_under_way = max(engine.most_under_way, engine.under_way)
            try:
                if engine.delays:
                    time.sleep(engine.delays.pop(0))
                if engine.refusals:
                    status, text, headers = engine.refusals.pop(0)
                    self._send(status, text.encode(), headers)
                    return
                status, answer = engine.answer(self.path, body, loop)
                self._send(status, json.dumps(answer).encode(), {})
            finally:
                engine.under_way -= 1

        do_GET = do_POST  # noqa: N815 — the library's name

        def _send(self, status: int, content: bytes, headers: Mapping[str, str]) -> None:
            self.send_response(status)
            for name, text in {**headers, "content-length": str(len(content))}.items():
                self.send_header(name, text)
            self.end_headers()
            if engine.broken:
                engine.broken -= 1
                self.wfile.write(content[: len(content) // 2])
                self.close_connection = True
                return
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    class Server(ThreadingHTTPServer):
        request_queue_size = 128  # connections that come at the same moment
        daemon_threads = False  # closing waits for what is being answered

    server = Server(("127.0.0.1", 0), Handler)
    engine.url = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield engine
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        loop.call_soon_threadsafe(loop.stop)
        loop_thread.join()
        loop.close()
