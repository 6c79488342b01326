"""Embeddings of a server: many texts at once, tried again where that may help, and refused by name."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.cli.test_pool_command import run, run_json
from tests.pool.conftest import build_point
from upturn.config import ApiKeys, RecallEmbeddings
from upturn.errors import ModelError
from upturn.loop.embeddings import EmbeddingServer, read_embeddings
from upturn.pool import Pool


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        server: Any = self.server
        server.requests.append((self.path, self.headers.get("authorization"), body))
        status, answer = server.answers.pop(0) if server.answers else (200, None)
        if answer is None:
            texts = body["input"]
            data = [{"index": index, "embedding": [float(len(text)), 1.0]} for index, text in enumerate(texts)]
            answer = {"data": data[::-1]}
        content = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Prints nothing."""


@contextmanager
def serving(*answers: tuple[int, Any]) -> Iterator[Any]:
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.answers, server.requests = list(answers), []
    server.url = f"http://127.0.0.1:{server.server_port}/v1"
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def ask(server: Any, waited: list[float], **settings: Any) -> EmbeddingServer:
    chosen = RecallEmbeddings(url=server.url, model="m", api_key_env="KEY", **settings)
    return EmbeddingServer(chosen, ApiKeys({"KEY": "secret"}), wait=waited.append)


def test_texts_are_asked_for_at_once_and_in_order() -> None:
    with serving() as server:
        embedder = ask(server, [], dimensions=2)
        assert embedder(["a", "bbb"]) == [[1.0, 1.0], [3.0, 1.0]]
    assert server.requests == [
        ("/v1/embeddings", "Bearer secret", {"model": "m", "input": ["a", "bbb"], "dimensions": 2})
    ]
    assert embedder.name == "m/2"


def test_failures_that_may_pass_are_tried_again() -> None:
    waited: list[float] = []
    with serving((503, {}), (429, {})) as server:
        assert ask(server, waited)(["a"]) == [[1.0, 1.0]]
    assert (waited, len(server.requests)) == ([0.5, 1.0], 3)
    named = r"no embeddings of 'm' from 'http://127.0.0.1:\d+/v1': .*503"
    with serving((503, {}), (503, {}), (503, {})) as server, pytest.raises(ModelError, match=named):
        ask(server, waited)(["a"])
    refused = (401, {"error": {"message": "wrong key"}})
    with serving(refused) as server, pytest.raises(ModelError, match=r"check \[pool.embeddings\]"):
        ask(server, waited)(["a"])
    assert (len(waited), len(server.requests)) == (4, 1)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ({}, "has no data"),
        ({"data": [{"index": 0}]}, "has no data"),
        ({"data": []}, "has 0 embeddings for 1 texts"),
        ({"data": [{"index": 1, "embedding": [1.0]}]}, "has 1 embeddings for 1 texts"),
        ({"data": [{"embedding": []}]}, "no list of 1 to 16384 numbers"),
        ({"data": [{"embedding": ["a"]}]}, "no finite numbers"),
        ({"data": [{"embedding": [0.0, 0.0]}]}, "has the length 0"),
    ],
)
def test_answers_that_are_no_embeddings_are_refused(answer: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        read_embeddings(json.dumps(answer).encode(), 1)


def test_the_command_compares_by_the_configured_server(tmp_path: Path) -> None:
    path, config = tmp_path / "pool.db", tmp_path / "upturn.toml"
    with Pool.open(path) as pool:
        pool.append(*build_point("a"))
    agent = '[loop]\ntrain = []\n[[agents]]\nname = "a"\nkind = "endpoint"\nurl = "http://a.test/v1"\nmodel = "m"\n'
    with serving() as server:
        config.write_text(f'{agent}[pool.embeddings]\nurl = "{server.url}"\nmodel = "m"\n')
        for _ in range(2):
            printed = run_json("pool", "similar", "move", "--pool", path, "--config", config)
            assert printed["embedder"] == "m"
            assert printed["similar"][0]["trajectory_id"] == "trajectory-a"
    assert [len(body["input"]) for _, _, body in server.requests] == [
        1,
        1,
        1,
    ]  # the instruction once, the text twice
    config.write_text(agent)
    done = run("pool", "similar", "move", "--pool", path, "--config", config)
    assert (done.exit_code, "has no [pool.embeddings]" in done.output.replace("\n", " ")) == (2, True)
