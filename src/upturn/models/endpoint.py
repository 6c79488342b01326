"""A client of a model's server for agents: a conversation in, an answer with its tool calls out, without token ids.

The server speaks one of the ``dialects``. Its answers can be routed, evaluated and recorded, but not trained on:
their token ids are unknown. Covered: time-outs, retries (see ``transport``), named errors. Not covered: streaming,
limits of load (``upturn.models.upstreams`` has both, for the gateway). The key is sent as a bearer token, in
Anthropic's dialect as ``x-api-key``, and never appears in an error.
"""

import math
from dataclasses import replace
from itertools import count
from time import monotonic

import httpx2

from upturn.dialects import ModelAnswer, ModelRequest, RequestError, dialect_of
from upturn.errors import ModelError
from upturn.models.transport import RefusedCallError, RetryPolicy, base_of, bearer, send

_MOST_TOKENS = 10**7
"""Untrusted: a larger count, summed over a trajectory's turns, would overflow a database column."""
_ANTHROPIC_VERSION = "2023-06-01"
DEFAULT_RETRY = RetryPolicy()


class ToolsRefusedError(ModelError):
    """The server refused a request with tools and named them in its answer."""


class ChatEndpoint:
    """One model behind one base URL, e.g. ``http://127.0.0.1:8000/v1``. Opens a connection for each call."""

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        dialect: str = "chat",
        api_key: str = "",
        retry: RetryPolicy = DEFAULT_RETRY,
    ) -> None:
        """``retry``: its ``on_failure`` is replaced.

        Raises ModelError for a URL that is not http(s), UnknownNameError for an unknown dialect.
        """
        self._dialect = dialect_of(dialect)
        self._url = base_of(base_url) + self._dialect.path
        self.dialect, self.model = dialect, model
        self._headers = bearer(api_key)
        if dialect == "messages":
            self._headers = {"anthropic-version": _ANTHROPIC_VERSION, **({"x-api-key": api_key} if api_key else {})}
        self._retry = replace(retry, on_failure=self._fail)
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

    async def answer(self, request: ModelRequest) -> ModelAnswer:
        """The answer to a conversation; the request's model is replaced by the endpoint's.

        Raises ModelError after the last try, with the endpoint and its response; ToolsRefusedError where the
        response to a request with tools names them.
        """
        payload = self._payload(request)
        number = next(self._calls)
        self._since[number] = monotonic()
        try:
            async with httpx2.AsyncClient(timeout=None, headers=self._headers) as client:
                call = client.build_request("POST", self._url, json=payload)
                response = await send(call, client, model=self.model, retry=self._retry)
        except RefusedCallError as exc:
            if request.tools and "tool" in exc.body.lower():
                raise ToolsRefusedError(str(exc)) from exc
            raise
        finally:
            del self._since[number]
        self._answered, self._problem = monotonic(), ""
        return self._read(response)

    def _payload(self, request: ModelRequest) -> dict[str, object]:
        try:
            return {**self._dialect.write_request(replace(request, model=self.model))}
        except RequestError as exc:
            raise ModelError(f"{self._url} ({self.dialect}) cannot be sent this conversation: {exc}") from exc

    def _read(self, response: httpx2.Response) -> ModelAnswer:
        try:
            answer = self._dialect.read_answer(response.content)
        except ModelError as exc:
            raise ModelError(f"{self._url} did not answer as a {self.dialect} endpoint: {exc}") from exc
        usage = answer.usage
        for name in ("input", "output", "cached_input", "cache_write", "cache_write_1h"):
            if not 0 <= getattr(usage, name) <= _MOST_TOKENS:
                raise ModelError(
                    f"{self._url} did not answer as a {self.dialect} endpoint: it counts {getattr(usage, name)!r} "
                    f"{name} tokens"
                )
        return answer
