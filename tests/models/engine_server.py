"""An engine server for tests: any ``Model`` behind vLLM's or SGLang's dialect, with faults to inject.

Paths and fields as named in ``upturn.models.engine_protocol``; vLLM's ``/collective_rpc`` as in its
``entrypoints/serve/rpc/api_router.py`` (v0.16), ``/pause`` and ``/resume`` as in ``entrypoints/serve/rlhf``,
SGLang's ``/pause_generation`` as ``PauseGenerationReqInput`` in its ``managers/io_struct.py`` (v0.5).

Requests are handled in threads and generated on one event loop, so that concurrent ones are batched.
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

from upturn.config import SamplingSettings
from upturn.models import Generation, GenerationRequest, Model

Load = Callable[[str, str], None]
"""``(name, folder)``: loads weights; raises OSError where it cannot."""
_ABORT = {"interrupted": "abort"}
"""Both engines' finish reason of requests that they end early."""


@dataclass
class Engine:
    """The served model, the faults to inject, and the requests so far."""

    model: Model
    version: str
    load: Load | None = None
    faults: list[Callable[["Engine", dict[str, Any]], dict[str, Any]]] = field(default_factory=list)
    """Applied to each answer to a generation request, in order."""
    refusals: list[tuple[int, str, Mapping[str, str]]] = field(default_factory=list)
    """Status, text and headers of the first responses, in place of answers."""
    delays: list[float] = field(default_factory=list)
    """Delays of the first requests in seconds."""
    is_processed: bool = False
    """True = vLLM's dialect returns processed log-probs; SGLang's always does."""
    broken: int = 0
    """Number of first responses that end within their body."""
    root: str = ""
    """Path or name of the weights that it was started with."""
    url: str = ""
    requests: list[tuple[str, dict[str, str], dict[str, Any]]] = field(default_factory=list)
    adapters: set[str] = field(default_factory=set)
    open_requests: int = 0
    peak_requests: int = 0

    def answer(self, path: str, body: dict[str, Any], loop: asyncio.AbstractEventLoop) -> tuple[int, Any]:
        match path:
            case "/v1/completions":
                return self._completions(body, loop)
            case "/v1/models":
                listed = [{"id": self.version, "object": "model", "root": self.root, "parent": None}]
                listed += [{"id": name, "object": "model", "parent": self.version} for name in self.adapters]
                return 200, {"object": "list", "data": listed}
            case "/collective_rpc":
                return self._reload(body)
            case "/reset_prefix_cache" | "/resume" | "/continue_generation":
                return 200, None
            case "/pause?mode=abort" | "/pause_generation":
                asyncio.run_coroutine_threadsafe(self.model.interrupt(), loop).result()  # type: ignore[attr-defined]
                return 200, None
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
        generation = self._run(body["prompt"], body, body["max_tokens"], body["seed"], loop)
        logprobs = (self.is_processed and generation.sampling_logprobs) or generation.logprobs
        answer = {
            "id": "cmpl-1",
            "object": "text_completion",
            "model": body["model"],
            "choices": [
                {
                    "index": 0,
                    "text": "",
                    "finish_reason": _ABORT.get(generation.finish_reason, generation.finish_reason),
                    "stop_reason": None,
                    "logprobs": {
                        "text_offset": [0] * len(generation.token_ids),
                        "token_logprobs": list(logprobs),
                        "tokens": [f"token_id:{token}" for token in generation.token_ids],
                        "top_logprobs": [{} for _ in generation.token_ids],
                    },
                    "token_ids": list(generation.token_ids),
                    "prompt_token_ids": list(body["prompt"]),
                }
            ],
            "usage": {"prompt_tokens": len(body["prompt"]), "completion_tokens": len(generation.token_ids)},
        }
        return 200, self._inject_faults(answer)

    def _generate(self, body: dict[str, Any], loop: asyncio.AbstractEventLoop) -> tuple[int, Any]:
        sampling = body["sampling_params"]
        generation = self._run(
            body["input_ids"], sampling, sampling["max_new_tokens"], sampling["sampling_seed"], loop
        )
        answer = {
            "text": "",
            "output_ids": list(generation.token_ids),
            "meta_info": {
                "id": "1",
                "finish_reason": {"type": _ABORT.get(generation.finish_reason, generation.finish_reason)},
                "prompt_tokens": len(body["input_ids"]),
                "completion_tokens": len(generation.token_ids),
                "weight_version": self.version,
                "output_token_logprobs": [
                    [logprob, token, None]
                    for token, logprob in zip(
                        generation.token_ids, generation.sampling_logprobs or generation.logprobs, strict=True
                    )
                ],
            },
        }
        return 200, self._inject_faults(answer)

    def _run(
        self, prompt: list[int], sampling: dict[str, Any], budget: int, seed: int, loop: asyncio.AbstractEventLoop
    ) -> Generation:
        options = SamplingSettings(
            top_k=max(sampling["top_k"], 0),
            top_p=sampling["top_p"],
            min_p=sampling["min_p"],
            repetition_penalty=sampling["repetition_penalty"],
            logit_bias={int(token): bias for token, bias in sampling.get("logit_bias", {}).items()},
            stop=tuple(sampling.get("stop", ())),
        )
        request = GenerationRequest(
            tuple(prompt),
            budget,
            tuple(sampling["stop_token_ids"]),
            sampling["temperature"],
            str(threading.get_ident()),
            (0, 0),
            seed,
            options,
        )
        call: Awaitable[Generation] = self.model.generate(request)
        try:
            return asyncio.run_coroutine_threadsafe(call, loop).result()  # type: ignore[arg-type]
        finally:
            self.model.release(request.session)

    def _inject_faults(self, answer: dict[str, Any]) -> dict[str, Any]:
        for fault in self.faults:
            answer = fault(self, answer)
        return answer

    def _load_adapter(self, body: dict[str, Any]) -> tuple[int, Any]:
        name = body["lora_name"]
        if name in self.adapters:
            return 400, {"error": {"message": f"The lora adapter '{name}' has already been loaded."}}
        problem = self._load(name, body["lora_path"])
        if problem:
            return 404, {"error": {"message": problem}}
        self.adapters.add(name)
        return 200, f"Success: LoRA adapter '{name}' added successfully."

    def _reload(self, body: dict[str, Any]) -> tuple[int, Any]:
        """vLLM in development mode: answers one result per worker, and a failure with status 500."""
        if body["method"] != "reload_weights":
            return 500, {"error": {"message": f"no method {body['method']}"}}
        problem = self._load("", body["kwargs"]["weights_path"])
        return (500, {"error": {"message": problem}}) if problem else (200, {"results": [None]})

    def _update(self, body: dict[str, Any]) -> tuple[int, Any]:
        problem = self._load(body["weight_version"], body["model_path"])
        if problem:
            return 400, {"success": False, "message": problem}
        self.version = body["weight_version"]
        return 200, {"success": True, "message": "Succeeded to update model weights."}

    def _load(self, name: str, folder: str) -> str:
        if self.load is not None:
            try:
                self.load(name, folder)
            except OSError as exc:
                return f"No adapter found for {folder}: {exc}"
        return ""


@contextmanager
def serving(engine: Engine) -> Iterator[Engine]:
    """Serves the engine at ``engine.url`` within the context."""
    loop = asyncio.new_event_loop()
    loop_thread = Thread(target=loop.run_forever)
    loop_thread.start()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"  # persistent connections, as in real engines

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or "{}")
            engine.requests.append((self.path, {name.lower(): text for name, text in self.headers.items()}, body))
            engine.open_requests += 1
            engine.peak_requests = max(engine.peak_requests, engine.open_requests)
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
                engine.open_requests -= 1

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
        request_queue_size = 128  # simultaneous connections
        daemon_threads = False  # closing waits for open requests

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
