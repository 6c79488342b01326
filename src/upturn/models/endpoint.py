"""A client of OpenAI-compatible chat endpoints: text in, text out, without token ids.

What it writes can be routed, judged and recorded, but not trained on: the tokens are not ours. Covered: timeouts,
retries (see ``transport``), named errors. Not covered: streaming, tool calls, images. The key is sent as a bearer
token and never appears in an error.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Literal, NamedTuple

import httpx2
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from upturn.errors import ModelError
from upturn.models.transport import Patience, base_of, bearer, post


class Message(NamedTuple):
    """One message of a chat."""

    role: Literal["system", "user", "assistant"]
    content: str


class Completion(NamedTuple):
    """What the endpoint wrote."""

    text: str
    prompt_tokens: int
    """As the endpoint counts; 0 where it does not say."""
    written_tokens: int
    model: str
    """The name the endpoint answered with."""


class _Border(BaseModel):
    model_config = ConfigDict(extra="ignore")  # endpoints add fields of their own


class _Content(_Border):
    content: str | None = None


class _Choice(_Border):
    message: _Content


# Foreign: a count that no column can hold, summed over an attempt's turns, must not pass the border.
_Tokens = Annotated[int, Field(ge=0, le=10**7)]


class _Counts(_Border):
    prompt_tokens: _Tokens = 0
    completion_tokens: _Tokens = 0


class _Body(_Border):
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
        self._patience = Patience(timeout_seconds, retries, sleep)

    async def complete(self, messages: Sequence[Message], *, temperature: float, max_tokens: int) -> Completion:
        """The answer to a chat; raises ModelError after the last try, naming the endpoint and what it said."""
        payload = {
            "model": self._model,
            "messages": [message._asdict() for message in messages],
            "temperature": temperature,
            "max_tokens": max_tokens,
        }
        async with httpx2.AsyncClient(timeout=None, headers=self._headers) as client:
            return self._read(await post(client, self._url, payload, model=self._model, patience=self._patience))

    def _read(self, response: httpx2.Response) -> Completion:
        try:
            body = _Body.model_validate_json(response.content)
            text = body.choices[0].message.content
        except (ValidationError, IndexError) as exc:
            raise ModelError(f"{self._url} did not answer as a chat endpoint: {response.text[:300]!r}") from exc
        counts = body.usage or _Counts()
        return Completion(text or "", counts.prompt_tokens, counts.completion_tokens, body.model)
