"""HTTP requests to an endpoint, with retries, exponential backoff and named errors.

Retried: connection errors, incomplete responses, timeouts, 408, 409, 429 and 5xx. Any other error status raises at
once. Not covered: streaming.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import httpx2
from pydantic import BaseModel, ConfigDict

from upturn.errors import ModelError

_RETRIED = frozenset({408, 409, 429, 500, 502, 503, 504})
_FIRST_WAIT_SECONDS = 0.5
_LONGEST_WAIT_SECONDS = 30.0
"""Also the longest ``Retry-After`` that is honoured."""


class WireModel(BaseModel):
    """Part of a response; unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore")


class RefusedCallError(ModelError):
    """The server answered with an error, at last or for good."""

    def __init__(self, message: str, body: str) -> None:
        """``body``: of the response."""
        super().__init__(message)
        self.body = body


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Timeout and retries of a request."""

    timeout_seconds: float = 60.0
    """Timeout of one try, from sending to the last byte of the response."""
    retries: int = 2
    """Further tries after the first."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    jitter: Callable[[], float] = lambda: 0.0
    """In [0, 1): the share by which a wait is extended, so that many clients do not retry at the same moment."""
    on_failure: Callable[[str], None] = lambda _: None
    """Is called with the problem of every failed try."""


async def send(
    request: httpx2.Request, client: httpx2.AsyncClient, *, model: str, retry: RetryPolicy
) -> httpx2.Response:
    """The response with status 200; raises ModelError after the last try, with the URL and the response
    (RefusedCallError where there is one).

    ``client``: without its own timeouts. ``model``: named in errors.
    """
    url = request.url
    for tries in range(retry.retries + 1):
        wait = min(_FIRST_WAIT_SECONDS * 2**tries, _LONGEST_WAIT_SECONDS)
        cause: Exception | None = None
        body: str | None = None
        try:
            async with asyncio.timeout(retry.timeout_seconds):
                response = await client.send(request)
        except TimeoutError as exc:
            problem, cause = f"no whole answer within {retry.timeout_seconds:g} s", exc
        except httpx2.ConnectError as exc:
            problem, cause = f"ConnectError: {exc}; start the endpoint, or correct its URL", exc
        except httpx2.TransportError as exc:
            problem, cause = f"{type(exc).__name__}: {exc}", exc
        else:
            if response.status_code == 200:
                return response
            body = response.text
            problem = f"HTTP {response.status_code}: {body[:300]}"
            if response.status_code not in _RETRIED:
                raise RefusedCallError(f"{url} refused model {model!r}: {problem}", body)
            wait = _retry_after(response, wait)
        retry.on_failure(problem)
        if tries < retry.retries:
            await retry.sleep(wait * (1 + retry.jitter()))
    message = f"{url} failed {retry.retries + 1} times, at last with {problem}"
    raise (ModelError(message) if body is None else RefusedCallError(message, body)) from cause


def base_of(url: str) -> str:
    """The URL without a trailing slash; raises ModelError for one that is not http(s)."""
    if not url.startswith(("http://", "https://")):
        raise ModelError(f"an endpoint's base URL starts with http:// or https://, got {url!r}")
    return url.rstrip("/")


def bearer(api_key: str) -> dict[str, str]:
    """The header with the key; no header for an empty key."""
    return {"authorization": f"Bearer {api_key}"} if api_key else {}


def _retry_after(response: httpx2.Response, default: float) -> float:
    """Seconds from the ``Retry-After`` header; ``default`` where it is absent or not in seconds."""
    header: Any = response.headers.get("retry-after", "")
    return min(float(header), _LONGEST_WAIT_SECONDS) if header.isdecimal() else default
