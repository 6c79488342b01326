"""Requests of web pages, without a server."""

import asyncio
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from upturn.config import AccessConfig
from upturn.gateway.access.browsers import with_origins

SHOP, EVIL = "https://shop.example", "https://evil.example"


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"ok"})


def answer(access: AccessConfig, method: str, origin: str) -> tuple[int, dict[str, str]]:
    headers = [(b"origin", origin.encode()), (b"access-control-request-method", b"POST")]
    headers.append((b"access-control-request-headers", b"authorization"))
    scope: dict[str, Any] = {"type": "http", "method": method, "path": "/v1/feedback", "headers": headers}
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b""}

    async def send(message: Message) -> None:
        sent.append(message)

    async def serve() -> None:
        await with_origins(application, access)(scope, receive, send)

    asyncio.run(serve())
    return sent[0]["status"], {name.decode(): value.decode() for name, value in sent[0]["headers"]}


def test_browsers_are_locked_out_by_default() -> None:
    assert with_origins(application, AccessConfig()) is application
    assert answer(AccessConfig(), "POST", SHOP) == (200, {}), "without the header a browser hides the answer"


@pytest.mark.parametrize("method", ["OPTIONS", "POST"])
def test_only_listed_pages_may_call(method: str) -> None:
    access = AccessConfig(allowed_origins=(SHOP,))
    status, headers = answer(access, method, SHOP)
    assert (status, headers["access-control-allow-origin"]) == (200, SHOP)
    assert "access-control-allow-credentials" not in headers
    assert "access-control-allow-origin" not in answer(access, method, EVIL)[1]
