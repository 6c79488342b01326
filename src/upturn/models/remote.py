"""A model behind a remote engine that returns token ids and log-probs: vLLM, SGLang and compatible servers.

Its output can be trained on, because no ids are derived from text: the prompt is sent as ids, ids come back. Each
answer is validated in this order: the weights are the ones that were loaded; the prompt was received as sent; each
token has one finite log-prob; nothing follows a stop id; the finish reason agrees with the tokens. A violation is a
ModelError, and so the trajectory's outcome.

Not covered here: an engine that returns well-formed tokens that it did not sample; only the weights can reveal
that, see ``training.optimisation.sampler_check``. An engine's tokens also differ from run to run, whatever the
seed: its batching changes rounding. Stop strings are the engine's to apply: without a tokenizer it cannot be
checked that a token completes one.
"""

import asyncio
import math
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import httpx2

from upturn.errors import ConfigError, ModelError
from upturn.models.engine_protocol import (
    Answer,
    Call,
    DialectName,
    LogprobScale,
    ServedModel,
    WeightsForm,
    dialect_of,
    parse_base_model,
)
from upturn.models.model import FinishReason, Generation, GenerationRequest
from upturn.models.transport import RetryPolicy, base_of, bearer, send

_ROUNDING = 1e-3
"""Nats by which rounding may raise a log-prob above 0."""
_SEED_STEP = 1_000_003
"""Between the seeds of the parts of an interrupted call."""
_CHECK_SECONDS = 10.0
"""Timeout of one availability check."""


@dataclass(frozen=True, slots=True)
class RemoteSettings:
    """Address and limits of an engine. Raises ConfigError with all invalid values."""

    base_url: str
    """``http://127.0.0.1:8000``, with or without ``/v1``."""
    dialect: DialectName = "vllm"
    max_length: int | None = None
    """The engine's longest context in tokens (vLLM's ``--max-model-len``): a call without room for one more token
    then gives none. None = unknown; the engine refuses such a call."""
    concurrency: int = 64
    """Concurrent requests; further ones wait here."""
    timeout_seconds: float = 120.0
    """Timeout of one try of a request."""
    retries: int = 3
    """Further tries after a transient failure."""
    logprobs: LogprobScale | None = None
    """Whether the engine's log-probs are the model's own (``raw``) or those of the distribution that it sampled
    from (``processed``); at temperature 1 without options they are the same. An engine returns one of the two: with
    ``raw``, a policy gradient can use tokens at temperature 1 only; with ``processed``, the log-probs at
    temperature 1 are unknown elsewhere, and a preference cannot use its sampler as the reference. None = the
    engine's default: raw for vLLM, processed for SGLang."""
    form: WeightsForm | None = None
    """Form of the weights that it is to load: adapters, or full models. None = adapters for vLLM, full models for
    SGLang, which loads no others here."""

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
            forms = dialect_of(self.dialect).forms
            if self.form not in {None, *forms}:
                problems.append(f"form must be one of {', '.join(forms)} for {self.dialect!r}, got {self.form!r}")
        except ModelError as exc:
            problems.append(str(exc))
        if self.logprobs not in {None, "raw", "processed"}:
            problems.append(f"logprobs must be 'raw', 'processed' or None, got {self.logprobs!r}")
        if problems:
            raise ConfigError(problems)


class _Connection(NamedTuple):
    """HTTP client and limit shared by the calls of one event loop."""

    client: httpx2.AsyncClient
    semaphore: asyncio.Semaphore
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
        """``version``: the engine's name for its current weights: vLLM's ``--served-model-name``, SGLang's
        ``--weight-version``. Every generation carries it until other weights are loaded.

        ``rng`` draws the jitter of waits between retries; None = a new one.
        """
        self.settings = settings
        self._dialect = dialect_of(settings.dialect)
        self._scale = settings.logprobs or self._dialect.default_scale
        self._base = base_of(settings.base_url).removesuffix("/v1")
        self._headers = bearer(api_key)
        jitter = (rng or random.Random()).random
        self._retry = RetryPolicy(settings.timeout_seconds, settings.retries, sleep, jitter)
        self._version = version
        self._name = version
        """Name of the weights in requests and answers; differs from the version where the engine names none."""
        self._form = settings.form or self._dialect.forms[0]
        self._loaded_name = ""
        self._loaded: str | None = None
        """Weights loaded through this object; None = those that the engine was started with."""
        self._connection: _Connection | None = None
        self._users = 0
        self._interruptions = 0

    @property
    def version(self) -> str:
        """The weights that generations come from."""
        return self._version

    @property
    def form(self) -> WeightsForm:
        """The form of weights that ``load_weights`` loads: an adapter, or a full model."""
        return self._form

    def use(self, name: str, version: str) -> None:
        """Samples from weights that the engine has already, which it calls ``name``; their hash is ``version``."""
        self._name, self._version = name, version

    def use_loaded(self) -> None:
        """Samples from the weights that were loaded last through this object, if any."""
        if self._loaded is not None:
            self.use(self._loaded_name, self._loaded)

    def refresh(self) -> None:
        """Nothing is cached here; the engine clears its own caches with the weights."""

    def release(self, session: str) -> None:
        """The engine manages its own sessions."""

    async def generate(self, request: GenerationRequest) -> Generation:
        """The validated continuation. A context without room for one more token gives no tokens, with ``length``.

        Raises ModelError for requests that cannot be served, and for inconsistent answers.
        """
        if not request.prompt_ids or request.max_tokens < 1:
            raise ModelError(
                f"a request needs a prompt and max_tokens >= 1, got {len(request.prompt_ids)} prompt tokens "
                f"and max_tokens {request.max_tokens!r}"
            )
        limit = self.settings.max_length
        budget = request.max_tokens if limit is None else min(request.max_tokens, limit - len(request.prompt_ids))
        if budget < 1:
            return Generation((), (), "length", self._version)
        version, name, interruptions = self._version, self._name, self._interruptions
        if request.drawn:  # the engine would repeat the random numbers of the interrupted call
            request = replace(request, seed=(request.seed + _SEED_STEP * request.drawn) % 2**63)
        call = self._dialect.generate(request, budget, name)
        async with self._connected() as connection, connection.semaphore:
            if self._interruptions > interruptions:  # while it waited here
                return Generation((), (), "interrupted", version)
            response = await self._post(connection, call)
        answer = self._parse(call, response)
        is_interrupted = answer.finish_reason == "abort" and self._interruptions > interruptions
        if is_interrupted and not answer.token_ids:
            return Generation((), (), "interrupted", version)
        if is_interrupted:
            answer = answer._replace(finish_reason="length")
        problems = chain(_prompt_problems(answer, request, name), _token_problems(answer, request, budget))
        if problem := next(problems, None):
            raise ModelError(f"{self._base}{call.path} cannot be trained on: {problem}")
        is_stopped = answer.token_ids[-1] in request.stop_ids or (
            bool(request.sampling.stop) and answer.finish_reason == "stop"
        )
        reason: FinishReason = "stop" if is_stopped else "interrupted" if is_interrupted else "length"
        logprobs = tuple(min(float(logprob or 0.0), 0.0) for logprob in answer.logprobs)
        if self._scale == "raw" or request.is_sampled_from_model:
            return Generation(answer.token_ids, logprobs, reason, version)
        return Generation(answer.token_ids, (), reason, version, sampling_logprobs=logprobs)

    async def interrupt(self) -> None:
        """Makes the engine end all requests early: they return ``interrupted`` with the tokens so far.

        Raises ModelError when it does not support that.
        """
        self._interruptions += 1
        async with self._connected() as connection:
            for call in self._dialect.interrupt():
                await self._post(connection, call)

    async def check(self) -> None:
        """Raises ModelError unless the engine answers and accepts the key. Changes nothing there."""
        seconds = min(self.settings.timeout_seconds, _CHECK_SECONDS)
        retry = replace(self._retry, timeout_seconds=seconds, retries=min(self.settings.retries, 1))
        async with self._connected() as connection:
            query = connection.client.build_request("GET", f"{self._base}/v1/models")
            await send(query, connection.client, model=self._version, retry=retry)

    async def base(self) -> ServedModel:
        """The model that the engine was started with. Raises ModelError where it does not list it."""
        async with self._connected() as connection:
            query = connection.client.build_request("GET", f"{self._base}/v1/models")
            response = await send(query, connection.client, model=self._version, retry=self._retry)
        try:
            return parse_base_model(response.content)
        except ValueError as exc:
            raise ModelError(f"{self._base}/v1/models does not list a model: {exc}") from exc

    async def load_weights(self, folder: Path, version: str) -> None:
        """Makes the engine load the weights in ``folder``, which it must be able to read, and sample from them.

        ``version`` names them; ``form`` is theirs. Weights loaded earlier are unloaded. Raises ModelError while
        requests are running, and when the engine does not load them.
        """
        if self._users:
            raise ModelError("weights cannot be loaded while requests are running; finish all rollouts first")
        has_name = self._form == "adapter" or self._dialect.weights_have_names
        if version == self._loaded:
            self.use_loaded()
            return
        name = version if has_name else (await self.base()).name
        async with self._connected() as connection:
            try:
                for call in self._dialect.load(folder, version, self._form):
                    await self._post(connection, call)
            except ModelError as exc:
                # A timed-out try may have succeeded; the name is the weights' hash, so these are the same weights.
                if "already been loaded" not in str(exc):
                    raise ModelError(
                        f"{exc}. The engine must be able to read the folder under the same path, and must allow "
                        "weight updates (vLLM: --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=True for "
                        "adapters, VLLM_SERVER_DEV_MODE=1 for full models)"
                    ) from exc
            previous, self._loaded, self._loaded_name = self._loaded, version, name
            self.use_loaded()
            if previous is not None:
                await self._unload(connection, previous)

    async def unload_weights(self, version: str) -> None:
        """Makes the engine unload weights that it has by name. Raises ModelError when it does not."""
        self._loaded = None if self._loaded == version else self._loaded
        async with self._connected() as connection:
            await self._unload(connection, version)

    async def _unload(self, connection: _Connection, version: str) -> None:
        call = self._dialect.unload(version, self._form)
        if call is not None:
            await self._post(connection, call)

    async def _post(self, connection: _Connection, call: Call) -> httpx2.Response:
        request = connection.client.build_request("POST", f"{self._base}{call.path}", json=call.payload)
        return await send(request, connection.client, model=self._version, retry=self._retry)

    def _parse(self, call: Call, response: httpx2.Response) -> Answer:
        try:
            return self._dialect.parse(response.content)
        except ValueError as exc:  # pydantic's errors are ValueErrors
            raise ModelError(
                f"{self._base}{call.path} did not answer as an engine that returns token ids and log-probs "
                f"(dialect {self.settings.dialect!r}): {exc}; it said {response.text[:300]!r}"
            ) from exc

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[_Connection]:
        """The connection of this event loop; one left by an event loop that ended is dropped."""
        loop = asyncio.get_running_loop()
        if self._connection is None or self._connection.loop is not loop:
            verify: Any = self._base.startswith("https://")  # loading the system's certificates is slow
            limits = httpx2.Limits(max_connections=None, max_keepalive_connections=self.settings.concurrency)
            client = httpx2.AsyncClient(timeout=None, headers=self._headers, verify=verify, limits=limits)
            self._connection = _Connection(client, asyncio.Semaphore(self.settings.concurrency), loop)
            self._users = 0
        connection = self._connection
        self._users += 1
        try:
            yield connection
        finally:
            self._users -= 1
            if not self._users:
                self._connection = None
                await connection.client.aclose()


def _prompt_problems(answer: Answer, request: GenerationRequest, version: str) -> Iterator[str]:
    """Inconsistencies of weights and prompt."""
    sent = len(request.prompt_ids)
    if answer.version != version:
        yield (
            f"it answers with weights {answer.version!r}, but {version!r} were loaded; load them again, and make "
            "sure that nothing else changes them"
        )
    if answer.prompt_ids not in {None, request.prompt_ids}:
        yield "its prompt_token_ids are not the ids that were sent: it retokenises the prompt from text"
    if answer.prompt_tokens not in {None, sent}:
        yield f"it received {answer.prompt_tokens} prompt tokens, {sent} were sent: it adds or truncates tokens"


def _token_problems(answer: Answer, request: GenerationRequest, budget: int) -> Iterator[str]:
    """Inconsistencies of the generated tokens."""
    ids, stops = answer.token_ids, request.stop_ids
    if not ids:
        yield "it generated no token"
    if len(ids) > budget:
        yield f"it generated {len(ids)} tokens, {budget} were requested"
    if answer.scored_ids not in {None, ids}:
        yield "its log-probs belong to other token ids than it returns: the ids are retokenised from text"
    if len(answer.logprobs) != len(ids):
        yield f"it returns {len(answer.logprobs)} log-probs for {len(ids)} tokens"
    bad = [value for value in answer.logprobs if value is None or not math.isfinite(value) or value > _ROUNDING]
    if bad:
        invalid = f"{len(bad)} of its log-probs are missing or invalid, such as {bad[:1]!r}"
        yield f"{invalid}; they must be finite, at most 0"
    passed_stops = [token for token in ids[:-1] if token in stops]
    if passed_stops:
        yield f"it continued after stop id {passed_stops[:1]!r}"
    if answer.finish_reason not in {"stop", "length"}:
        yield f"its finish reason is {answer.finish_reason!r}; known: 'stop', 'length'"
    if answer.finish_reason == "stop" and ids[-1] not in stops and not request.sampling.stop:
        yield (
            f"it stopped after token {ids[-1]!r}, which is none of the stop ids {stops!r}: it adds its own stop "
            "ids (vLLM: start it with --generation-config vllm), or removes the stop id"
        )
