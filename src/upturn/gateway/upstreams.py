"""The upstreams of agent versions, made at their first call or, of local models, by ``Upstreams.load``."""

import inspect
import logging
from collections.abc import Awaitable, Mapping
from functools import partial
from threading import Lock

from upturn.agents import AgentFunction, load_function, precision, sampling, temperature, template_options
from upturn.config import AgentConfig, ApiKeys, Config, PriceConfig, UpstreamConfig
from upturn.dialects import ModelAnswer, ModelRequest, ToolCall, message_text
from upturn.errors import ModelError
from upturn.models import LocalModel, Model, Precision, load_local
from upturn.models.upstreams import (
    Answering,
    Endpoint,
    EndpointUpstream,
    EngineThread,
    FunctionUpstream,
    LocalUpstream,
    Script,
    Upstream,
    script_for,
)
from upturn.records import Action, AgentVersion, JsonValue, Observation, Turn

DEFAULT_CONTEXT_TOKENS = 4_096
"""Longest context of a local model where ``environment.max_tokens`` is unset, if its positions go so far."""
_SLOTS = 16
"""Calls that a local model answers at the same time; each holds a cache of its longest context."""
_log = logging.getLogger("upturn.gateway")


class Upstreams:
    """The upstreams of agent versions. For one event loop."""

    def __init__(self, config: Config, keys: ApiKeys, *, threads: int) -> None:
        """``threads``: of torch."""
        self._config = config
        self._agents = {agent.name: agent for agent in config.agents}
        self._keys = keys
        self._threads = threads
        self._versions: dict[str, AgentVersion] = {}
        self._made: dict[str, Upstream] = {}
        self._engines: dict[tuple[str, str], EngineThread] = {}
        self._models: dict[tuple[str, str], LocalModel] = {}
        self._loading = Lock()
        self._replaced: list[Upstream] = []

    def replace(self, config: Config, keys: ApiKeys) -> None:
        """Continues with other agents, prices and keys; calls that have begun end with the earlier ones."""
        before = {agent.name: (agent, self._keys.of(agent)) for agent in self._config.agents}
        self._config, self._keys = config, keys
        self._agents = {agent.name: agent for agent in config.agents}
        after = {agent.name: (agent, keys.of(agent)) for agent in config.agents}
        for version_id, upstream in list(self._made.items()):
            agent = version_id.rpartition("@")[0]
            # others depend on their version alone, and share engines
            if isinstance(upstream, EndpointUpstream) and before.get(agent) != after.get(agent):
                self._replaced.append(self._made.pop(version_id))

    def add(self, version: AgentVersion) -> None:
        """Makes a version known; its upstream is made at the first call."""
        self._versions[version.id] = version

    def load(self) -> None:
        """Loads the local models of all known versions, so that no call waits for them.

        One that cannot be loaded is logged: its calls fail, or go to other agents, as they would later.
        """
        for version in list(self._versions.values()):  # others may come meanwhile
            if version.kind == "local_model":
                self.of(version.id)
        for (name, _), engine in list(self._engines.items()):
            try:
                engine.load().result()
            except ModelError as exc:
                _log.warning("the model %r cannot be loaded, its agents answer no calls: %s", name, exc)

    def of(self, version_id: str) -> Upstream:
        """Returns the upstream of a version; raises LookupError for one that is unknown or answers no calls."""
        if version_id not in self._made:
            version = self._versions.get(version_id)
            if version is None:
                raise LookupError(f"agent version {version_id!r} is not in service")
            self._made[version_id] = self._make(version)
        return self._made[version_id]

    def price(self, version_id: str) -> PriceConfig | None:
        """Returns the price of a version's tokens; None = unknown."""
        version = self._versions.get(version_id)
        return None if version is None else self.price_of(version)

    def price_of(self, version: AgentVersion) -> PriceConfig | None:
        """Returns the price of any version's tokens, also of one that no longer serves; None = unknown."""
        return self._config.price_of(version.agent, version.model_name)

    def all(self) -> Mapping[str, Upstream]:
        """Returns the upstreams that have been made, by version."""
        return self._made

    async def close(self) -> None:
        """Ends all connections and engines."""
        for upstream in (*self._replaced, *self._made.values()):
            await upstream.close()

    def _make(self, version: AgentVersion) -> Upstream:
        match version.kind:
            case "endpoint":
                return self._endpoint(version, self._agents.get(version.agent))
            case "local_model":
                return self._local(version)
            case "callable" | "rule_based":
                return FunctionUpstream(answering(load_function(version.model)), version.id)
            case "program":
                raise LookupError(
                    f"agent version {version.id!r} is a program, which answers tasks and no model calls"
                )

    def _endpoint(self, version: AgentVersion, agent: AgentConfig | None) -> Upstream:
        settings = UpstreamConfig() if agent is None else agent.upstream
        key = "" if agent is None else self._keys.of(agent)
        return EndpointUpstream(Endpoint(version.model, version.model_name, settings, key))

    def _local(self, version: AgentVersion) -> Upstream:
        form = precision(version)
        load = partial(self._model, version.model, form)
        limit = self._config.environment.max_tokens or DEFAULT_CONTEXT_TOKENS
        engine = self._engines.setdefault(
            (version.model, form), EngineThread(lambda: _engine(load(), limit, self._threads))
        )
        return LocalUpstream(
            engine,
            lambda: _script(load(), version),
            model=version.id,
            temperature=temperature(version),
            sampling=sampling(version),
            max_length=lambda: _max_length(load(), limit),
        )

    def _model(self, name: str, form: Precision) -> LocalModel:
        """Returns the model, which all versions share that differ in prompt or sampling only."""
        with self._loading:  # the engine's thread and that of the first call may ask at the same time
            if (name, form) not in self._models:
                self._models[name, form] = load_local(name, precision=form)
            return self._models[name, form]


def _script(local: LocalModel, version: AgentVersion) -> Script:
    return script_for(local.renderer(options=template_options(version)), version.prompt)


def _engine(local: LocalModel, limit: int, threads: int) -> Model:
    import torch

    from upturn.models.engine import LocalEngine

    torch.set_num_threads(threads)
    return LocalEngine(local.model, slots=_SLOTS, max_length=_max_length(local, limit), tokenizer=local.tokenizer)


def _max_length(local: LocalModel, limit: int) -> int:
    positions = getattr(local.model.config.get_text_config(decoder=True), "max_position_embeddings", None)
    return limit if positions is None else min(limit, int(positions))


def answering(function: AgentFunction) -> Answering:
    """Returns an agent's function as one that answers requests: it sees the texts of the conversation as turns."""

    def answer(request: ModelRequest) -> str | ModelAnswer | Awaitable[str | ModelAnswer]:
        result = function(*_arguments(request))
        return _awaited(result) if inspect.isawaitable(result) else _answer(result)

    async def _awaited(result: Awaitable[Action | str]) -> str | ModelAnswer:
        return _answer(await result)

    return answer


def _arguments(request: ModelRequest) -> tuple[str, list[Turn], Observation]:
    turns: list[Turn] = []
    observed: list[str] = []
    for message in request.messages:
        if message.role == "assistant":
            turns.append(Turn(Observation("\n\n".join(observed)), message_text(message), None))
            observed = []
        elif message.role != "system":
            observed.append(message_text(message))
    observation = Observation("\n\n".join(observed))
    instruction = turns[0].observation.text if turns else observation.text
    return instruction, turns, observation


def _answer(result: Action | str) -> str | ModelAnswer:
    """Returns text as it is, and an action as a tool call."""
    if isinstance(result, str):
        return result
    from pydantic_core import to_json

    arguments: JsonValue = dict(result.parameters)
    return ModelAnswer("", "", (ToolCall("call_0", result.name, to_json(arguments).decode()),), "tool_calls")
