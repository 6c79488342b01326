"""Calls through workers: the same answers and records as without, limits that hold for all, departures, ends."""

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from tests.gateway.workers.worker_desk import (
    CHAT,
    MAX_BODY_BYTES,
    WorkerDesk,
    answers,
    client_of,
    open_workers,
    until,
    worker_of,
)
from tests.models.upstreams import faults
from tests.models.upstreams.raw_server import SSE_HEAD, Behaviour, Visit, chat_chunk
from upturn.errors import StoreError
from upturn.pool import Pool
from upturn.pool.calls import calls_of_episode
from upturn.records import Call

PATHS: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": CHAT,
    "/v1/messages": {**CHAT, "max_tokens": 9},
    "/v1/responses": {"model": "ann", "input": "hi"},
}


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[Pool]:
    with Pool.open(tmp_path / "pool.db") as opened:
        yield opened


def call_in(pool: Pool, episode: str) -> Call:
    [member] = calls_of_episode(pool.engine, episode, tenant="default")
    return member.call


def comparable(content: str, episode: str, decision: str) -> str:
    """The content without what differs between any two calls: names and times."""
    for name in filter(None, (episode, decision)):
        content = content.replace(name, "its name")
    return re.sub(r'"(created|created_at|completed_at)":\s*\d+', "", content)


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize(
    "behaviour",
    [answers, faults.hangs_up, faults.not_json, faults.empty_stream, faults.dies_midway, faults.garbage_midway],
)
async def test_a_worker_changes_neither_answer_nor_record(
    pool: Pool, behaviour: Behaviour, is_streamed: bool
) -> None:
    async with open_workers(pool, behaviour, retries=0, breaker_failures=100) as desk:
        for path, body in PATHS.items():
            seen = []
            for name, client in (("direct", desk.direct), ("worker", desk.clients[0])):
                episode = f"{name}{path.replace('/', '-')}"
                headers = {"x-upturn-episode": episode}
                answer = await client.post(path, json={**body, "stream": is_streamed}, headers=headers)
                await desk.service.log.settle()
                call = call_in(pool, episode)
                kept = {key: value for key, value in answer.headers.items() if key != "content-length"}
                assert int(answer.headers.get("content-length", len(answer.content))) == len(answer.content)
                seen.append(
                    (
                        answer.status_code,
                        comparable(repr(sorted(kept.items())), episode, call.id),
                        comparable(answer.text, episode, call.id),
                        (call.status, call.finish, call.error, call.input_tokens, call.output_tokens),
                        (call.attempted, call.changes, call.first_token_seconds is None),
                    )
                )
            assert seen[0] == seen[1]


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_a_marked_retry_gets_the_first_answer_from_any_worker(pool: Pool, is_streamed: bool) -> None:
    async with open_workers(pool, count=2) as desk:
        first, second = desk.clients
        body = {**CHAT, "stream": is_streamed}
        answer = await first.post("/v1/chat/completions", json=body, headers={"x-stainless-retry-count": "0"})
        again = await second.post("/v1/chat/completions", json=body, headers={"x-stainless-retry-count": "1"})
        assert again.headers["x-upturn-replayed"] == "true"
        assert (again.status_code, again.content) == (200, answer.content)
        assert len(desk.server.visits) == 1


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("/v1/messages", b'{"model": "gpt", "max_tokens": 9, "messages": []}', 404, "not_found_error"),
        ("/v1/messages", b"x" * (MAX_BODY_BYTES + 1), 413, "request_too_large"),
        ("/v1/chat/completions", b"{", 400, "invalid_json"),
        ("/v1/nothing", b"", 404, "not_found"),
    ],
)
async def test_errors_are_those_of_the_main_process(
    pool: Pool, path: str, body: bytes, status: int, code: str
) -> None:
    async with open_workers(pool) as desk:
        answer = await desk.clients[0].post(path, content=body)
        direct = await desk.direct.post(path, content=body)
    assert answer.status_code == direct.status_code == status
    error = answer.json()["error"]
    assert error == direct.json()["error"]
    assert code in (error.get("code"), error["type"])


async def test_a_limit_of_calls_holds_for_all_workers_together(pool: Pool) -> None:
    opened = asyncio.Event()

    async def waits(visit: Visit) -> None:
        await opened.wait()
        await answers(visit)

    async with open_workers(pool, waits, count=3, max_concurrent=2, max_waiting=1) as desk:
        calls = [
            asyncio.ensure_future(desk.clients[number % 3].post("/v1/chat/completions", json=CHAT))
            for number in range(6)
        ]
        await until(lambda: sum(call.done() for call in calls) == 3 and len(desk.server.visits) == 2)
        opened.set()
        statuses = sorted(answer.status_code for answer in await asyncio.gather(*calls))
    assert statuses == [200, 200, 200, 503, 503, 503]


async def test_failures_seen_by_any_worker_open_one_breaker(pool: Pool) -> None:
    async with open_workers(pool, faults.hangs_up, count=2, retries=0, breaker_failures=2) as desk:
        for client in desk.clients:
            assert (await client.post("/v1/chat/completions", json=CHAT)).status_code == 502
        assert desk.upstream.breaker_state == "open"
        for client in desk.clients:
            assert (await client.post("/v1/chat/completions", json=CHAT)).status_code == 503
        assert len(desk.server.visits) == 2


async def test_a_call_is_tried_again_where_its_client_is(pool: Pool) -> None:
    async def fails_once(visit: Visit) -> None:
        if visit.number == 0:
            await visit.json({"error": {"message": "busy"}}, "503 Service Unavailable", "retry-after: 0")
        else:
            await answers(visit)

    async with open_workers(pool, fails_once) as desk:
        answer = await desk.clients[0].post("/v1/chat/completions", json=CHAT)
        assert answer.json()["choices"][0]["message"]["content"] == "hello"
        assert len(desk.server.visits) == 2


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_a_second_attempt_beside_a_slow_one_answers(
    pool: Pool, is_streamed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def first_hangs(visit: Visit) -> None:
        if visit.number == 0:
            await visit.departure()
        else:
            await answers(visit)

    async with open_workers(pool, first_hangs, hedge_after_seconds=1.0) as desk:

        async def first_has_come(seconds: float) -> None:
            assert seconds == 1.0
            await until(lambda: bool(desk.server.visits))

        monkeypatch.setattr(desk.upstream, "_sleep", first_has_come)
        headers = {"x-upturn-episode": "slow"}
        body = {**CHAT, "stream": is_streamed}
        answer = await desk.clients[0].post("/v1/chat/completions", json=body, headers=headers)
        await desk.service.log.settle()
        assert answer.status_code == 200
        assert ("[DONE]" in answer.text) == is_streamed
        assert (call_in(pool, "slow").status, call_in(pool, "slow").hedge) == ("answered", "second")
        assert len(desk.server.visits) == 2


async def test_a_call_whose_storage_fails_is_not_answered(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(_records: object) -> None:
        raise StoreError("the disk is full")

    async with open_workers(pool) as desk:
        monkeypatch.setattr(desk.service.log, "store", fails)
        whole = await desk.clients[0].post("/v1/chat/completions", json=CHAT)
        stream = await desk.clients[0].post("/v1/chat/completions", json={**CHAT, "stream": True})
    assert whole.status_code == 503
    assert "hello" not in whole.text
    assert "hel" in stream.text
    assert "[DONE]" not in stream.text


class Caller:
    """A client of a worker that can leave in the middle of an answer."""

    def __init__(self, desk: WorkerDesk, **body: Any) -> None:
        content = json.dumps({**CHAT, **body}).encode()
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "scheme": "http",
            "method": "POST",
            "path": "/v1/chat/completions",
            "raw_path": b"/v1/chat/completions",
            "query_string": b"",
            "root_path": "",
            "headers": [(b"x-upturn-episode", b"left")],
            "client": ("127.0.0.1", 5),
            "server": ("127.0.0.1", 8000),
        }
        self._incoming: list[Message] = [{"type": "http.request", "body": content, "more_body": False}]
        self._departed = asyncio.Event()
        self.received: list[Message] = []
        self.running = asyncio.ensure_future(desk.workers[0](scope, self._receive, self._send))

    def leave(self) -> None:
        """The connection is closed."""
        self._departed.set()

    async def _receive(self) -> Message:
        if self._incoming:
            return self._incoming.pop()
        await self._departed.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        self.received.append(message)


@pytest.mark.parametrize("is_begun", [False, True])
async def test_a_departure_ends_the_call_and_stores_what_has_come(pool: Pool, is_begun: bool) -> None:
    gone = asyncio.Event()

    async def hangs(visit: Visit) -> None:
        if is_begun:
            await visit.send(SSE_HEAD)
            await visit.part(chat_chunk("Hel"))
        await visit.departure()
        gone.set()

    async with open_workers(pool, hangs) as desk:
        caller = Caller(desk, stream=True)
        await until(lambda: len(caller.received) == 2 if is_begun else bool(desk.server.visits))
        caller.leave()
        await asyncio.wait_for(caller.running, 60.0)
        await asyncio.wait_for(gone.wait(), 60.0)
        await desk.service.log.settle()
        call = call_in(pool, "left")
        assert (call.status, call.error) == ("cancelled", "the client left before the answer's end")
        assert (call.first_token_seconds is not None) == is_begun


async def test_a_call_whose_worker_ends_is_stored_as_cancelled(pool: Pool) -> None:
    async with open_workers(pool, faults.hangs_midway) as desk:
        caller = Caller(desk, stream=True)
        await until(lambda: len(caller.received) == 2)
        desk.workers[0].channel.close()
        with pytest.raises(ConnectionError):
            await caller.running
        await until(lambda: bool(calls_of_episode(pool.engine, "left", tenant="default")))
        assert call_in(pool, "left").status == "cancelled"


async def test_a_worker_without_its_main_process_refuses_and_stops() -> None:
    async def app(_scope: Scope, _receive: Receive, _send: Send) -> None:
        raise AssertionError("nothing is asked")

    stopped: list[bool] = []
    async with worker_of(app, lambda: stopped.append(True)) as worker, client_of(worker) as client:
        worker.channel.close()
        await until(lambda: bool(stopped))
        answer = await client.post("/v1/messages", json=CHAT)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert answer.json()["error"]["type"] == "overloaded_error"


async def test_metrics_count_calls_of_all_workers(pool: Pool) -> None:
    async with open_workers(pool, count=2) as desk:
        for client in (*desk.clients, desk.direct):
            await client.post("/v1/chat/completions", json=CHAT)
        page = (await desk.clients[0].get("/metrics")).text
    assert 'upturn_requests_total{agent="ann",dialect="chat",route="",status="200"} 3.0' in page
