"""A model behind an engine elsewhere that returns token ids and log-probs: vLLM, SGLang, whatever speaks like them.

What it writes can be trained on, because nothing is made from text: the prompt goes out as ids, ids come back. Each
answer is checked before it counts, in this order: the weights are the ones that were handed over; the prompt was
read as it was sent; there is one finite log-prob for each token; nothing comes after a stop id; the reason to stop
is the one that the tokens show. What breaks a rule is a ModelError that names it, and so the attempt's outcome.

Not covered here: an engine that answers in good form with tokens that it did not sample. Only the weights can tell,
see ``training.rescoring``. Nor are an engine's tokens the same from run to run: its batches change its rounding,
however they are seeded.
"""

import asyncio
import math
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import httpx2

from upturn.errors import ConfigError, ModelError
from upturn.models.engine_protocol import Answer, Call, DialectName, LogprobScale, WeightsForm, dialect_of
from upturn.models.model import FinishReason, Generation, GenerationRequest
from upturn.models.transport import Patience, base_of, bearer, get, post

_ROUNDING = 1e-3
"""Nats that rounding may put a log-prob above 0."""
_LOOK_SECONDS = 10.0
"""For one try of seeing whether an engine is there."""


@dataclass(frozen=True, slots=True)
class RemoteSettings:
    """Where an engine is, and how it is asked. Raises ConfigError with everything that cannot be."""

    base_url: str
    """``http://127.0.0.1:8000``, with or without ``/v1``."""
    dialect: DialectName = "vllm"
    max_length: int | None = None
    """Tokens of the longest context that the engine takes (vLLM's ``--max-model-len``): a call without room for one
    more token gives none then. None = unknown; such a call is refused by the engine."""
    concurrency: int = 64
    """Requests under way at the same time; further ones wait here."""
    timeout_seconds: float = 120.0
    """Of one try of one request."""
    retries: int = 3
    """Further tries after a failure that may pass."""
    logprobs: LogprobScale | None = None
    """Whether the engine's log-probs are the model's own (``raw``) or those of what it sampled from, temperature
    and all (``processed``): at temperature 1 they are the same. None = the engine's default: raw for vLLM,
    processed for SGLang."""

    def __post_init__(self) -> None:
        """Checks every field."""
        problems = [
            f"{name} must be at least 1, got {value!r}"
            for name, value in (("concurrency", self.concurrency), ("max_length", self.max_length))
            if value is not None and value < 1
        ]
        if not (math.isfinite(self.timeout_seconds) and self.timeout_seconds > 0):
            problems.append(f"timeout_seconds must be positive and finite, got {self.timeout_seconds!r}")
        if self.retries < 0:
            problems.append(f"retries must be 0 or more, got {self.retries!r}")
        try:
            base_of(self.base_url)
            dialect_of(self.dialect)
        except ModelError as exc:
            problems.append(str(exc))
        if self.logprobs not in {None, "raw", "processed"}:
            problems.append(f"logprobs must be 'raw', 'processed' or None, got {self.logprobs!r}")
        if problems:
            raise ConfigError(problems)


class _Line(NamedTuple):
    """What the calls of one event loop share."""

    client: httpx2.AsyncClient
    places: asyncio.Semaphore
    loop: asyncio.AbstractEventLoop


class RemoteEngine:
    """A ``Model`` at a URL, for one event loop at a time.

    Opens connections with the first request under way and closes them after the last.
    """

    def __init__(
        self,
        settings: RemoteSettings,
        version: str,
        *,
        api_key: str = "",
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        rng: random.Random | None = None,
    ) -> None:
        """``version``: what the engine calls the weights that it serves now: vLLM's ``--served-model-name``,
        SGLang's ``--weight-version``. It stands in every generation until other weights are handed over.

        ``rng`` spreads the waits between tries; None = one of its own.
        """
        self.settings = settings
        self._dialect = dialect_of(settings.dialect)
        self._scale = settings.logprobs or self._dialect.default_scale
        self._base = base_of(settings.base_url).removesuffix("/v1")
        self._headers = bearer(api_key)
        jitter = (rng or random.Random()).random
        self._patience = Patience(settings.timeout_seconds, settings.retries, sleep, jitter)
        self._version = version
        self._loaded: str | None = None
        """Weights that were loaded from here; None = those that the engine was started with."""
        self._line: _Line | None = None
        self._users = 0

    @property
    def version(self) -> str:
        """The weights that generations come from."""
        return self._version

    @property
    def form(self) -> WeightsForm:
        """What ``take`` takes: the folder of an adapter, or of a whole model."""
        return self._dialect.form

    def refresh(self) -> None:
        """Nothing is cached here; the engine's own caches go with the weights."""

    def release(self, session: str) -> None:
        """Sessions are the engine's own business."""

    async def generate(self, request: GenerationRequest) -> Generation:
        """The continuation, checked. A context without room for one more token gives no tokens, with ``length``.

        Raises ModelError for what cannot be served, and for answers that cannot be what was sampled.
        """
        if not request.prompt_ids or request.max_tokens < 1:
            raise ModelError(
                f"a request needs a prompt and max_tokens >= 1, got {len(request.prompt_ids)} prompt tokens "
                f"and max_tokens {request.max_tokens!r}"
            )
        if self._scale == "processed" and request.temperature != 1.0:
            raise ModelError(
                f"the log-probs of {self._base} are those at the sampling temperature, so at temperature "
                f"{request.temperature!r} they are not the model's: sample at 1.0, as practice does, or "
                f"{self._dialect.raw_cure} and say so where the engine is made: RemoteSettings(logprobs='raw')"
            )
        limit = self.settings.max_length
        budget = request.max_tokens if limit is None else min(request.max_tokens, limit - len(request.prompt_ids))
        if budget < 1:
            return Generation((), (), "length", self._version)
        version = self._version
        call = self._dialect.generate(request, budget, version)
        async with self._under_way() as line, line.places:
            response = await self._post(line, call)
        answer = self._read(call, response)
        problem = _problem(answer, request, budget, version)
        if problem is not None:
            raise ModelError(f"{self._base}{call.path} cannot be trained on: {problem}")
        reason: FinishReason = "stop" if answer.token_ids[-1] in request.stop_ids else "length"
        logprobs = tuple(min(float(logprob or 0.0), 0.0) for logprob in answer.logprobs)
        return Generation(answer.token_ids, logprobs, reason, version)

    async def check(self) -> None:
        """Raises ModelError unless the engine is there, answers and takes the key. Nothing is changed there."""
        seconds = min(self.settings.timeout_seconds, _LOOK_SECONDS)
        patience = replace(self._patience, timeout_seconds=seconds, retries=min(self.settings.retries, 1))
        async with self._under_way() as line:
            await get(line.client, f"{self._base}/v1/models", model=self._version, patience=patience)

    async def take(self, folder: Path, version: str) -> None:
        """Lets the engine load the weights in ``folder``, which it must be able to read, and samples with them.

        ``version`` names them; vLLM takes adapters, SGLang whole models (``form``). What was loaded before is
        unloaded. Raises ModelError while requests are under way, and when the engine does not load them.
        """
        if self._users:
            raise ModelError("weights handed over while requests are under way; let all attempts finish before")
        if version == self._loaded:
            return
        async with self._under_way() as line:
            await self._load(line, self._dialect.load(folder, version))
            before, self._version, self._loaded = self._loaded, version, version
            forget = None if before is None else self._dialect.unload(before)
            if forget is not None:
                await self._post(line, forget)

    async def _load(self, line: _Line, call: Call) -> None:
        try:
            await self._post(line, call)
        except ModelError as exc:
            # A try that was not answered in time may have worked; the name is the weights' hash, so these are they.
            if "already been loaded" not in str(exc):
                raise ModelError(
                    f"{exc}. The engine must be able to read the folder under the same path, and be allowed to "
                    "change its weights (vLLM: --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=True)"
                ) from exc

    async def _post(self, line: _Line, call: Call) -> httpx2.Response:
        url = f"{self._base}{call.path}"
        return await post(line.client, url, call.payload, model=self._version, patience=self._patience)

    def _read(self, call: Call, response: httpx2.Response) -> Answer:
        try:
            return self._dialect.read(response.content)
        except ValueError as exc:  # pydantic's are such
            raise ModelError(
                f"{self._base}{call.path} did not answer as an engine that returns token ids and log-probs "
                f"(dialect {self.settings.dialect!r}): {exc}; it said {response.text[:300]!r}"
            ) from exc

    @asynccontextmanager
    async def _under_way(self) -> AsyncIterator[_Line]:
        """Connections of this event loop. An event loop that ended without closing them left them behind."""
        loop = asyncio.get_running_loop()
        if self._line is None or self._line.loop is not loop:
            verify: Any = self._base.startswith("https://")  # reading the system's certificates takes a while
            limits = httpx2.Limits(max_connections=None, max_keepalive_connections=self.settings.concurrency)
            client = httpx2.AsyncClient(timeout=None, headers=self._headers, verify=verify, limits=limits)
            self._line, self._users = _Line(client, asyncio.Semaphore(self.settings.concurrency), loop), 0
        line = self._line
        self._users += 1
        try:
            yield line
        finally:
            self._users -= 1
            if not self._users:
                self._line = None
                await line.client.aclose()


def _problem(answer: Answer, request: GenerationRequest, budget: int, version: str) -> str | None:
    """Why the answer cannot be what was sampled; None = nothing is wrong with it by itself."""
    problems = (*_about_prompt(answer, request, version), *_about_tokens(answer, request, budget))
    return next((text for is_wrong, text in problems if is_wrong), None)


def _about_prompt(answer: Answer, request: GenerationRequest, version: str) -> tuple[tuple[bool, str], ...]:
    """What may be wrong before the first token, each with whether it is."""
    sent = len(request.prompt_ids)
    return (
        (
            answer.version != version,
            f"it answers with weights {answer.version!r}, {version!r} were handed over; hand them over again, and "
            "let nobody else change them",
        ),
        (
            answer.prompt_ids is not None and answer.prompt_ids != request.prompt_ids,
            "its prompt_token_ids are not the ids that were sent: it makes the prompt anew from text",
        ),
        (
            answer.prompt_tokens is not None and answer.prompt_tokens != sent,
            f"it read {answer.prompt_tokens} prompt tokens, {sent} were sent: it adds some or cuts some off",
        ),
    )


def _about_tokens(answer: Answer, request: GenerationRequest, budget: int) -> tuple[tuple[bool, str], ...]:
    """What may be wrong with what was written, each with whether it is."""
    ids, stops = answer.token_ids, request.stop_ids
    gone_on = [token for token in ids[:-1] if token in stops]
    bad = [logprob for logprob in answer.logprobs if logprob is None or not math.isfinite(logprob) or logprob > _ROUNDING]
    last = ids[-1] if ids else None
    return (
        (not ids, "it wrote no token"),
        (len(ids) > budget, f"it wrote {len(ids)} tokens, {budget} were asked for"),
        (
            answer.scored_ids is not None and answer.scored_ids != ids,
            "its log-probs belong to other token ids than it returns: the ids are made anew from text",
        ),
        (len(answer.logprobs) != len(ids), f"it gives {len(answer.logprobs)} log-probs for {len(ids)} tokens"),
        (
            bool(bad),
            f"{len(bad)} of its log-probs are missing or none, such as {bad[:1]!r}; allowed is finite, at most 0",
        ),
        (bool(gone_on), f"it went on after stop id {gone_on[:1]!r}"),
        (
            answer.finish_reason not in {"stop", "length"},
            f"it ended with {answer.finish_reason!r}; known are 'stop' and 'length'",
        ),
        (
            answer.finish_reason == "stop" and last not in stops,
            f"it stopped after token {last!r}, which is none of the stop ids {stops!r}: it has some of its own "
            "(vLLM: start it with --generation-config vllm), or cuts the stop id off",
        ),
    )
