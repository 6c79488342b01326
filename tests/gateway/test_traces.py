"""``POST /v1/traces``: OTLP as JSON and protobuf, plain and gzip."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.test_app import client_of
from upturn.pool import Pool

FILES = Path(__file__).parents[1] / "data" / "pool" / "formats"
PROTOBUF = (FILES / "otlp_genai.pb").read_bytes()
LINES = (FILES / "otlp_genai.jsonl").read_bytes().splitlines()
AS_JSON = {"content-type": "application/json"}
AS_PROTOBUF = {"content-type": "application/x-protobuf"}
PACKED = {"content-encoding": "gzip"}


@pytest.fixture
def pool(tmp_path: Path) -> Any:
    with Pool.open(tmp_path / "pool.db") as opened:
        yield opened


async def test_traces_are_stored_once_in_any_form(pool: Pool) -> None:
    async with client_of(pool) as (client, _, _app):
        for content, headers in (
            (PROTOBUF, AS_PROTOBUF),
            (gzip.compress(PROTOBUF), AS_PROTOBUF | PACKED),
            (LINES[0], AS_JSON | {"content-type": "application/json; charset=utf-8"}),
            (gzip.compress(LINES[0]), AS_JSON | PACKED),
        ):
            answer = await client.post("/v1/traces", content=content, headers=headers)
            assert answer.status_code == 200
            assert answer.content == (b"" if "protobuf" in headers["content-type"] else b"{}")
    (trajectory,) = pool.trajectories(tenant="default")
    assert [turn.text for turn in trajectory.turns] == ["", "12 EUR."]
    assert trajectory.agent_version == "imported:gpt-x-2026@otlp"


async def test_rejected_calls_are_named_and_the_others_are_stored(pool: Pool) -> None:
    async with client_of(pool) as (client, _, _app):
        answer = await client.post("/v1/traces", content=LINES[2], headers=AS_JSON)
    partial = answer.json()["partialSuccess"]
    assert partial["rejectedSpans"] == "1"
    assert "cccccccccccccc02 has no messages" in partial["errorMessage"]
    assert [trajectory.agent_version for trajectory in pool.trajectories(tenant="default")] == [
        "imported:gpt-indexed@otlp"
    ]


@pytest.mark.parametrize(
    ("content", "headers", "status", "message"),
    [
        (b"{", AS_JSON, 400, "no ExportTraceServiceRequest in JSON"),
        (b"[]", AS_JSON, 400, "an object with resourceSpans"),
        (b"\xff\xff", AS_PROTOBUF, 400, "no ExportTraceServiceRequest in protobuf"),
        (b"{}", {"content-type": "text/plain"}, 415, "content-type is 'text/plain'"),
        (b"{}", AS_JSON | {"content-encoding": "br"}, 415, "content-encoding"),
        (b"{}", AS_JSON | PACKED, 400, "no gzip"),
        (gzip.compress(PROTOBUF)[:-9], AS_PROTOBUF | PACKED, 400, "ends early"),
        (gzip.compress(b" " * 2**26), AS_JSON | PACKED, 413, "unpacked"),
    ],
)
async def test_bad_requests_are_refused(
    pool: Pool, content: bytes, headers: dict[str, str], status: int, message: str
) -> None:
    async with client_of(pool) as (client, _, _app):
        answer = await client.post("/v1/traces", content=content, headers=headers)
        assert answer.status_code == status
        assert message in json.dumps(answer.json())
        other = await client.post(
            "/v1/feedback", content=gzip.compress(b"{}"), headers=AS_JSON | {"content-encoding": "gzip"}
        )
        assert other.status_code == 415
    assert not list(pool.trajectories(tenant="default"))
