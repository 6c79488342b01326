"""Errors that clients see: what is wrong, and what to do, without the rest of the request."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.test_app import CHAT, MESSAGES, client_of
from upturn.pool import Pool

JSON_HEADERS = {"content-type": "application/json"}


@pytest.fixture
def pool(tmp_path: Path) -> Any:
    with Pool.open(tmp_path / "pool.db") as opened:
        yield opened


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'{"a": ', "Expecting value at character 6"),
        (b"[" * 100_000, "maximum recursion depth exceeded"),
        (b'{"value": "\xff"}', "'utf-8' codec can't decode byte 0xff in position 11"),
        (b'{"value": ' + b"9" * 5_000 + b"}", "Exceeds the limit (4300 digits)"),
    ],
)
async def test_a_body_that_is_not_json_is_called_that(pool: Pool, content: bytes, reason: str) -> None:
    async with client_of(pool) as (client, _, _app):
        answer = await client.post("/v1/feedback", content=content, headers=JSON_HEADERS)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == (400, "invalid_json", None)
    assert error["message"].startswith(f"the body is not JSON: {reason}")


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("/v1/feedback", [], "the body: Input should be an object, got []"),
        ("/v1/feedback", {"decision_id": "secret"}, "value is missing"),
        (
            "/v1/feedback",
            {"value": 1, "foo": "secret"},
            "foo is no field of this request; /openapi.json lists them",
        ),
        ("/v1/chat/completions", {"model": "default"}, "messages is missing"),
        ("/v1/messages", {**CHAT}, "max_tokens is missing"),
        ("/v1/embeddings", {"model": "default", "input": [{"secret": 1}]}, "input.0: Input should be a valid"),
    ],
)
async def test_a_problem_names_the_field_and_not_the_rest_of_the_body(
    pool: Pool, path: str, body: Any, message: str
) -> None:
    async with client_of(pool) as (client, _, _app):
        answer = await client.post(path, json=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith(message), answer.text


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/feedback"])
async def test_a_compressed_body_is_refused_by_name(pool: Pool, path: str) -> None:
    content = gzip.compress(json.dumps(CHAT).encode())
    async with client_of(pool) as (client, _, _app):
        answer = await client.post(path, content=content, headers={**JSON_HEADERS, "content-encoding": "gzip"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (415, "unsupported_encoding")
    assert answer.json()["error"]["message"] == "content-encoding 'gzip'; send bodies uncompressed"


@pytest.mark.parametrize(
    ("path", "cure"),
    [
        (
            "/chat/completions",
            "model calls go to /v1/chat/completions: give the client a base URL with /v1 at its end",
        ),
        ("/v1/v1/messages", "model calls go to /v1/messages: give the client a base URL without /v1 at its end"),
        ("/v1/nothing", "/openapi.json lists what there is"),
    ],
)
async def test_a_wrong_base_url_gets_the_right_one(pool: Pool, path: str, cure: str) -> None:
    async with client_of(pool) as (client, _, _app):
        answer = await client.post(path, json=MESSAGES)
    assert answer.status_code == 404
    assert answer.json()["error"]["message"] == f"there is no {path}; {cure}"


async def test_a_wrong_method_gets_the_right_one(pool: Pool) -> None:
    async with client_of(pool) as (client, _, _app):
        answer = await client.get("/v1/chat/completions")
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    assert answer.json()["error"]["message"] == "/v1/chat/completions does not take GET; it takes POST"


async def test_a_long_id_is_cut_in_the_answer_and_the_cure_stays(pool: Pool) -> None:
    async with client_of(pool) as (client, _, _app):
        answer = await client.get(f"/v1/episodes/{'e' * 10_000}")
    message = answer.json()["error"]["message"]
    assert answer.status_code == 404
    assert len(message) == 4_003
    assert message.endswith("'; its first call makes one")


@pytest.mark.parametrize(
    ("metadata", "problem"),
    [
        ({"episode": 5}, "metadata.episode must be a text of 1 to 200 printable characters, got 5"),
        (
            {"session_id": {"a": 1}},
            "metadata.session_id must be a text of 1 to 200 printable characters, got {'a': 1}",
        ),
        ({"family": ["mail"]}, "metadata.family must be a text of 1 to 200 printable characters, got ['mail']"),
        (
            {"family": "f" * 201},
            "metadata.family must be a text of 1 to 200 printable characters, got 201 characters",
        ),
    ],
)
async def test_a_name_that_is_no_text_is_not_ignored(pool: Pool, metadata: Any, problem: str) -> None:
    async with client_of(pool) as (client, _, _app):
        answer = await client.post("/v1/chat/completions", json=CHAT | {"metadata": metadata})
    assert (answer.status_code, answer.json()["error"]["message"]) == (400, problem)


@pytest.mark.parametrize("path", ["/health", "/ready"])
async def test_monitors_may_ask_without_a_body(pool: Pool, path: str) -> None:
    async with client_of(pool) as (client, _, _app):
        answer = await client.head(path)
    assert (answer.status_code, answer.content) == (200, b"")


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/v1/feedback"])
async def test_a_store_that_fails_is_said_without_its_path_and_with_a_time(
    pool: Pool, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with client_of(pool) as (client, _, _app):
        decision = (await client.post("/v1/chat/completions", json=CHAT)).json()["id"]
        pool.close()
        answer = await client.post(path, json={"value": 1, "decision_id": decision} if "feed" in path else MESSAGES)
    message = "the gateway cannot use its store at the moment, and has kept nothing of this request; try again"
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert answer.json()["error"]["message"] == message
    [record] = [record for record in caplog.records if record.name == "upturn.gateway"]
    assert (record.exc_info, str(pool.location) in record.getMessage()) == (None, True)
