"""A client of OpenAI-compatible chat endpoints: text in, text out, without token ids.

Its completions can be routed, evaluated and recorded, but not trained on: their token ids are unknown. Covered:
timeouts, retries (see ``transport``), named errors. Not covered: streaming, tool calls, images. The key is sent as
a bearer token and never appears in an error.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from time import monotonic
from typing import Annotated, Literal, NamedTuple

import httpx2
from pydantic import Field, ValidationError

from upturn.errors import ModelError
from upturn.models.transport import RetryPolicy, WireModel, base_of, bearer, send


class Message(NamedTuple):
    """One message of a chat."""

    role: Literal["system", "user", "assistant"]
    content: str


class Completion(NamedTuple):
    """An endpoint's answer."""

    text: str
    prompt_tokens: int
    """As reported by the endpoint; 0 = not reported."""
    written_tokens: int
    model: str
    """The name reported by the endpoint."""


class _Content(WireModel):
    content: str | None = None


class _Choice(WireModel):
    message: _Content


# Untrusted: reject a count whose sum over a trajectory's turns would overflow a database column.
_Tokens = Annotated[int, Field(ge=0, le=10**7)]


class _Counts(WireModel):
    prompt_tokens: _Tokens = 0
    completion_tokens: _Tokens = 0


class _Body(WireModel):
    choices: list[_Choice]
    usage: _Counts | None = None
    model: str = ""


class ChatEndpoint:
    """One model behind one base URL, e.g. ``http://127.0.0.1:8000/v1``. Opens a connection for each call."""

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        api_key: str = "",
        timeout_seconds: float = 60.0,
        retries: int = 2,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """``retries``: further tries after the first. Raises ModelError for a URL that is not http(s)."""
        self._url = f"{base_of(base_url)}/chat/completions"
        self._model = model
        self._headers = bearer(api_key)
        self._retry = RetryPolicy(timeout_seconds, retries, sleep, on_failure=self._fail)
        self._since: dict[int, float] = {}
        """When each unanswered call began, by its number."""
        self._calls = count()
        self._answered = -math.inf
        """When the last answer came."""
        self._problem = ""
        """Of the last failed try; empty = an answer came since."""

    def trouble(self, seconds: float) -> str:
        """A sentence if calls wait, and for so many seconds none was answered or a try failed; otherwise empty."""
        if not self._since:
            return ""
        waited = monotonic() - max(self._answered, min(self._since.values()))
        if waited < seconds and not self._problem:
            return ""
        policy = f"{self._retry.timeout_seconds:g} s a try, {self._retry.retries} further tries"
        failed = f"; the last failed try: {self._problem}" if self._problem else ""
        return (
            f"{self._url} has not answered for {waited:.0f} s, {len(self._since)} calls wait ({policy}: "
            f"agents.timeout_seconds, agents.retries){failed}"
        )

    def _fail(self, problem: str) -> None:
        self._problem = problem

    async def complete(self, messages: Sequence[Message], *, temperature: float, max_tokens: int) -> Completion:
        """The answer to a chat; raises ModelError after the last try, with the endpoint and its response."""
        payload = {
            "model": self._model,
            "messages": [message._asdict() for message in messages],
            "temperature": temperature,
            "max_tokens": max_tokens,
        }
        number = next(self._calls)
        self._since[number] = monotonic()
        try:
            async with httpx2.AsyncClient(timeout=None, headers=self._headers) as client:
                request = client.build_request("POST", self._url, json=payload)
                response = await send(request, client, model=self._model, retry=self._retry)
        finally:
            del self._since[number]
        self._answered, self._problem = monotonic(), ""
        return self._parse(response)

    def _parse(self, response: httpx2.Response) -> Completion:
        try:
            body = _Body.model_validate_json(response.content)
            text = body.choices[0].message.content
        except (ValidationError, IndexError) as exc:
            raise ModelError(f"{self._url} did not answer as a chat endpoint: {response.text[:300]!r}") from exc
        counts = body.usage or _Counts()
        return Completion(text or "", counts.prompt_tokens, counts.completion_tokens, body.model)
