"""How requests go to an endpoint: tries again what may pass, waits longer each time, gives up by name.

Covered: connection errors, answers that break off, answers that do not come, 408, 409, 429 and 5xx. What else is
refused is refused at once. Not covered: streaming.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import httpx2

from upturn.errors import ModelError

_PASSING = frozenset({408, 409, 429, 500, 502, 503, 504})
_FIRST_WAIT_SECONDS = 0.5
_LONGEST_WAIT_SECONDS = 30.0
"""Also the longest ``Retry-After`` that is obeyed."""


def _no_jitter() -> float:
    return 0.0


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a request may take, and how often it is tried."""

    timeout_seconds: float = 60.0
    """Of one try, from its sending to the last byte of its answer."""
    retries: int = 2
    """Further tries after the first."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    jitter: Callable[[], float] = _no_jitter
    """In [0, 1): by which share a wait becomes longer, so that many clients do not come back at the same moment."""


async def post(
    client: httpx2.AsyncClient, url: str, payload: Mapping[str, Any], *, model: str, patience: Patience
) -> httpx2.Response:
    """The answer with status 200; raises ModelError after the last try, naming the URL and what it said.

    ``client``: one without timeouts of its own. ``model``: whom the request is for, in the words of an error.
    """
    return await _answered(client.build_request("POST", url, json=payload), client, model=model, patience=patience)


async def get(client: httpx2.AsyncClient, url: str, *, model: str, patience: Patience) -> httpx2.Response:
    """As ``post``, sending nothing."""
    return await _answered(client.build_request("GET", url), client, model=model, patience=patience)


async def _answered(
    request: httpx2.Request, client: httpx2.AsyncClient, *, model: str, patience: Patience
) -> httpx2.Response:
    url = request.url
    for tries in range(patience.retries + 1):
        wait = min(_FIRST_WAIT_SECONDS * 2**tries, _LONGEST_WAIT_SECONDS)
        cause: Exception | None = None
        try:
            async with asyncio.timeout(patience.timeout_seconds):
                response = await client.send(request)
        except TimeoutError as exc:
            problem, cause = f"no whole answer within {patience.timeout_seconds:g} s", exc
        except httpx2.ConnectError as exc:
            problem, cause = f"ConnectError: {exc}; start the endpoint, or correct its URL", exc
        except httpx2.TransportError as exc:
            problem, cause = f"{type(exc).__name__}: {exc}", exc
        else:
            if response.status_code == 200:
                return response
            problem = f"HTTP {response.status_code}: {response.text[:300]}"
            if response.status_code not in _PASSING:
                raise ModelError(f"{url} refused model {model!r}: {problem}")
            wait = _asked_wait(response, wait)
        if tries < patience.retries:
            await patience.sleep(wait * (1 + patience.jitter()))
    raise ModelError(f"{url} failed {patience.retries + 1} times, at last with {problem}") from cause


def base_of(url: str) -> str:
    """The URL without a slash at its end; raises ModelError for one that is not http(s)."""
    if not url.startswith(("http://", "https://")):
        raise ModelError(f"an endpoint's base URL starts with http:// or https://, got {url!r}")
    return url.rstrip("/")


def bearer(api_key: str) -> dict[str, str]:
    """Headers that carry the key; none for no key."""
    return {"authorization": f"Bearer {api_key}"} if api_key else {}


def _asked_wait(response: httpx2.Response, usual: float) -> float:
    """Seconds the endpoint asks to wait; ``usual`` where it does not say in seconds."""
    asked: Any = response.headers.get("retry-after", "")
    return min(float(asked), _LONGEST_WAIT_SECONDS) if asked.isdecimal() else usual
