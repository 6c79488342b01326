"""Log-probs of given tokens from a model on a server: vLLM, SGLang, or OpenAI-compatible completions with ``echo``.

Nothing is sampled here, and no text is sent: the tokens go out as ids, and each answer is checked for being about
these ids. Field names as in vLLM (``entrypoints/openai/completion/protocol.py``), SGLang
(``managers/tokenizer_manager.py``) and OpenAI's legacy completions, as of November 2026. Not covered: a server that
answers with the log-probs of another model; its name is all that is known about it.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple, Protocol

import httpx2
from pydantic import Field

from upturn.errors import ConfigError, ModelError
from upturn.models.engine_protocol import Call
from upturn.models.transport import RetryPolicy, WireModel, base_of, bearer, send

ScoringDialect = Literal["vllm", "sglang", "openai"]
_CLAMPED = -9999.0
"""What vLLM and OpenAI write for a log-prob that is −∞ or unknown."""
_TOKEN = "token_id:"  # vLLM's prefix for ids in place of text
_UNDECODABLE = "�"
_RETRIES = 3


class Scoring(NamedTuple):
    """A request: the log-probs of the last tokens of a sequence."""

    token_ids: tuple[int, ...]
    start: int
    """Position of the first token whose log-prob is wanted; at least 1, since nothing predicts the first one."""


class Scores(NamedTuple):
    """The answer to a request."""

    logprobs: tuple[float, ...]
    """From ``start`` on; NaN = the server has none for this token. Empty where the request failed."""
    problem: str
    """Why the request failed; empty = it did not."""


@dataclass(frozen=True, slots=True)
class ScoringSettings:
    """Address and limits of a server. Raises ConfigError with all invalid values."""

    base_url: str
    """``http://127.0.0.1:8000``, with or without ``/v1``."""
    model: str
    """The name that the server knows the model by; SGLang serves one model and reads no name."""
    dialect: ScoringDialect
    concurrency: int
    """Concurrent requests."""
    timeout_seconds: float
    """Timeout of one try of a request."""

    def __post_init__(self) -> None:
        """Checks every field."""
        problems = []
        try:
            base_of(self.base_url)
        except ModelError as exc:
            problems.append(str(exc))
        if self.dialect not in _WIRES:
            problems.append(f"dialect must be one of {', '.join(_WIRES)}, got {self.dialect!r}")
        if self.concurrency < 1:
            problems.append(f"concurrency must be at least 1, got {self.concurrency!r}")
        if not (math.isfinite(self.timeout_seconds) and self.timeout_seconds > 0):
            problems.append(f"timeout_seconds must be positive and finite, got {self.timeout_seconds!r}")
        if problems:
            raise ConfigError(problems)


class RemoteTeacher:
    """Scores sequences with a model on a server. Opens connections for each call of ``score``."""

    def __init__(
        self,
        settings: ScoringSettings,
        *,
        text_of: Callable[[int], str],
        api_key: str = "",
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """``text_of``: the text of a token id here. It is compared with the server's, where it returns texts."""
        self.settings = settings
        self._wire = _WIRES[settings.dialect]
        self._base = base_of(settings.base_url).removesuffix("/v1")
        self._headers = bearer(api_key)
        self._text_of = text_of
        self._retry = RetryPolicy(settings.timeout_seconds, _RETRIES, sleep)

    async def score(self, requests: Sequence[Scoring]) -> list[Scores]:
        """The answers in order; a request that failed has a problem and no log-probs.

        Raises ModelError where every request failed.
        """
        semaphore = asyncio.Semaphore(self.settings.concurrency)
        async with httpx2.AsyncClient(timeout=None, headers=self._headers) as client:

            async def one(request: Scoring) -> Scores:
                async with semaphore:
                    try:
                        return Scores(await self._logprobs(request, client), "")
                    except ModelError as exc:
                        return Scores((), str(exc))

            answers = list(await asyncio.gather(*map(one, requests)))
        if answers and all(answer.problem for answer in answers):
            raise ModelError(f"the teacher scored none of {len(answers)} sequences: {answers[0].problem}")
        return answers

    async def _logprobs(self, request: Scoring, client: httpx2.AsyncClient) -> tuple[float, ...]:
        call = self._wire.call(request, self.settings.model)
        query = client.build_request("POST", f"{self._base}{call.path}", json=call.payload)
        response = await send(query, client, model=self.settings.model, retry=self._retry)
        try:
            values = self._wire.parse(response.content, request, self._text_of)
        except ValueError as exc:  # pydantic's errors are ValueErrors
            raise ModelError(
                f"{self._base}{call.path} did not answer with the log-probs of the tokens sent (dialect "
                f"{self.settings.dialect!r}): {exc}; it said {response.text[:300]!r}"
            ) from exc
        return tuple(
            math.nan if value is None or not math.isfinite(value) or value <= _CLAMPED else min(value, 0.0)
            for value in values
        )


class _Wire(Protocol):
    """The wire format of one kind of server."""

    def call(self, request: Scoring, model: str) -> Call:
        """The request."""

    def parse(self, content: bytes, request: Scoring, text_of: Callable[[int], str]) -> list[float | None]:
        """The log-probs from ``start`` on. Raises ValueError for other content, and for other tokens."""


_Id = Annotated[int, Field(ge=0)]


class _Value(WireModel):
    logprob: float | None = None
    decoded_token: str | None = None


class _Echo(WireModel):
    token_logprobs: list[float | None] = Field(default_factory=list)
    tokens: list[str] = Field(default_factory=list)


class _Choice(WireModel):
    prompt_logprobs: list[dict[str, _Value] | None] | None = None
    logprobs: _Echo | None = None


class _Completion(WireModel):
    choices: list[_Choice] = Field(min_length=1, max_length=1)


class _Vllm:
    """vLLM's completions; with ``prompt_logprobs`` 0 there is an entry for the prompt's own token only."""

    def call(self, request: Scoring, model: str) -> Call:
        return Call(
            "/v1/completions",
            {
                "model": model,
                "prompt": list(request.token_ids),
                "max_tokens": 1,
                "temperature": 1.0,
                "prompt_logprobs": 0,
                "stream": False,
            },
        )

    def parse(self, content: bytes, request: Scoring, text_of: Callable[[int], str]) -> list[float | None]:
        entries = _Completion.model_validate_json(content).choices[0].prompt_logprobs
        if entries is None:
            raise ValueError("there are no prompt_logprobs; the server must be vLLM")
        _check_length(len(entries), len(request.token_ids))
        values = list[float | None]()
        for position in range(request.start, len(request.token_ids)):
            token, entry = request.token_ids[position], entries[position]
            value = None if entry is None else entry.get(str(token))
            if value is None:
                raise ValueError(f"it has no log-prob for the token {token} at position {position}")
            if value.decoded_token is not None:
                _check_text(token, value.decoded_token, text_of(token))
            values.append(value.logprob)
        return values


class _Meta(WireModel):
    input_token_logprobs: list[tuple[float | None, _Id, str | None]] | None = None


class _Generated(WireModel):
    meta_info: _Meta


class _Sglang:
    """SGLang's ``/generate``. Its first log-prob is None, so it is asked for one token more."""

    def call(self, request: Scoring, model: str) -> Call:  # noqa: ARG002  # it serves one model
        return Call(
            "/generate",
            {
                "input_ids": list(request.token_ids),
                "sampling_params": {"max_new_tokens": 0, "temperature": 1.0},
                "return_logprob": True,
                "logprob_start_len": request.start - 1,
                "stream": False,
            },
        )

    def parse(self, content: bytes, request: Scoring, text_of: Callable[[int], str]) -> list[float | None]:  # noqa: ARG002  # it returns ids
        entries = _Generated.model_validate_json(content).meta_info.input_token_logprobs
        if entries is None:
            raise ValueError("there are no input_token_logprobs")
        wanted = request.token_ids[request.start :]
        scored = entries[len(entries) - len(wanted) :] if len(entries) >= len(wanted) else entries
        ids = tuple(token for _, token, _ in scored)
        if ids != wanted:
            raise ValueError(f"its log-probs are of the tokens {ids[:8]!r}…, sent were {wanted[:8]!r}…")
        return [logprob for logprob, _, _ in scored]


class _OpenAi:
    """Completions that repeat the prompt with log-probs. The token that must be sampled as well is ignored."""

    def call(self, request: Scoring, model: str) -> Call:
        return Call(
            "/v1/completions",
            {
                "model": model,
                "prompt": list(request.token_ids),
                "max_tokens": 1,
                "temperature": 1.0,
                "echo": True,
                "logprobs": 1,
                "stream": False,
            },
        )

    def parse(self, content: bytes, request: Scoring, text_of: Callable[[int], str]) -> list[float | None]:
        echo = _Completion.model_validate_json(content).choices[0].logprobs
        if echo is None or not echo.token_logprobs:
            raise ValueError("there are no logprobs of the prompt; a server with echo and logprobs is needed")
        sent = len(request.token_ids)
        if len(echo.token_logprobs) != len(echo.tokens) or len(echo.tokens) not in {sent, sent + 1}:
            raise ValueError(
                f"it has {len(echo.token_logprobs)} log-probs of {len(echo.tokens)} tokens, {sent} were sent: it "
                "does not repeat the prompt, or reads it as other tokens"
            )
        for token, text in zip(request.token_ids, echo.tokens, strict=False):
            _check_text(token, text, text_of(token))
        return echo.token_logprobs[request.start : sent]


_WIRES: Mapping[str, _Wire] = {"vllm": _Vllm(), "sglang": _Sglang(), "openai": _OpenAi()}


def _check_length(scored: int, sent: int) -> None:
    if scored != sent:
        raise ValueError(f"it has {scored} prompt tokens, {sent} were sent: it adds or truncates tokens")


def _check_text(token: int, theirs: str, ours: str) -> None:
    """Raises ValueError where a token has another text on the server.

    Spaces at its ends are not compared, since decoders drop them; nor are parts of a character, which have no text.
    """
    if theirs.startswith(_TOKEN):
        if theirs != f"{_TOKEN}{token}":
            raise ValueError(f"it read the token {token} as {theirs!r}")
        return
    is_partial = _UNDECODABLE in theirs or _UNDECODABLE in ours or theirs.startswith("bytes:")
    if not is_partial and theirs.strip() != ours.strip():
        raise ValueError(f"the token {token} is {theirs!r} there and {ours!r} here: its tokenizer is another one")
