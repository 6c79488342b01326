"""Living agents: agent versions with their engines loaded, ready to attempt tasks."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from upturn.agents import (
    Agent,
    BranchPoint,
    Job,
    RolloutRequest,
    Setting,
    build,
    precision,
    run_rollouts,
    temperature,
    template_options,
)
from upturn.agents.context import budget_of
from upturn.config import Limits
from upturn.environments import EnvironmentKit, tools_of
from upturn.errors import ModelError
from upturn.models import LocalModel, Model, Precision, Renderer, load_local
from upturn.records import AgentVersion, Observation, Task, Trajectory

SLOTS = 192
"""Attempts alive at the same time; also rows of the engine's cache."""
CONTEXT = 512
"""Tokens a local agent's context may have where the limits name none; bounds the cache's memory."""


@dataclass(frozen=True, slots=True)
class Purpose:
    """What a batch of attempts is for; makes ids unique and draws independent."""

    key: str
    """Part of every trajectory id."""
    seed: int
    """Attempts with equal (seed, task, attempt, turn) draw the same."""
    temperature: float | None = None
    """None = the version's own serving temperature."""


class Engine(Model, Protocol):
    """A model with caches."""

    def refresh(self) -> None:
        """Forgets all caches."""


@dataclass(frozen=True, slots=True)
class _Living:
    agent: Agent
    model: Engine | None
    temperature: float


class AgentRuntime:
    """Builds each version once and lets versions attempt tasks in their environment. Not thread-safe."""

    def __init__(self, kit: EnvironmentKit, limits: Limits, api_keys: Mapping[str, str] | None = None) -> None:
        """``api_keys``: of endpoint agents, by agent name; None = no agent needs one."""
        self.kit = kit
        self.limits = limits
        self._api_keys = dict(api_keys or {})
        self._living: dict[str, _Living] = {}
        self._engines: dict[tuple[str, Precision], tuple[Engine, LocalModel]] = {}
        """By model, and how its weights are held."""

    def attempt(
        self,
        jobs: Sequence[tuple[AgentVersion, Task, int]],
        purpose: Purpose,
        begin: Sequence[BranchPoint] | None = None,
    ) -> list[Trajectory]:
        """One trajectory for each (version, task, attempt number), in order.

        ``begin``: of each job the state that it goes on from; None = all begin with their task.
        """
        indices: dict[str, int] = {}
        built = []
        started = [None] * len(jobs) if begin is None else begin
        for (version, task, number), beginning in zip(jobs, started, strict=True):
            index = indices.setdefault(task.id, len(indices))
            built.append(Job(RolloutRequest(task, number, index, beginning), self._setting(version, purpose)))
        # What earlier attempts left in the caches would show in the last digits of log-probs, and a resumed process
        # has no earlier attempts.
        engines = {id(job.setting.model): self._living[job.setting.agent_version].model for job in built}
        for engine in engines.values():
            if engine is not None:
                engine.refresh()
        return asyncio.run(run_rollouts(built, self.kit.environment, slots=SLOTS))

    def renderer(self, version: AgentVersion) -> Renderer:
        """How the tokens of a version with a local model are read and written."""
        return renderer_of(self._engine(version)[1], version, self.kit)

    def adopt(self, version: AgentVersion, engine: Engine, renderer: Renderer) -> None:
        """Serve ``version`` from an engine that exists already: a model in training."""
        self._check_room(version, renderer)
        agent = build(version, limits=self.limits, renderer=renderer)
        self._living[version.id] = _Living(agent, engine, temperature(version))

    def keep_only(self, versions: Iterable[AgentVersion]) -> None:
        """Forgets all other versions and their engines; they are built again when they are needed."""
        kept = list(versions)
        ids, models = {version.id for version in kept}, {version.model for version in kept}
        self._living = {name: living for name, living in self._living.items() if name in ids}
        self._engines = {key: engine for key, engine in self._engines.items() if key[0] in models}

    def _setting(self, version: AgentVersion, purpose: Purpose) -> Setting:
        living = self._living.get(version.id) or self._build(version)
        return Setting(
            key=purpose.key,
            agent=living.agent,
            agent_version=version.id,
            model=living.model,
            limits=self.limits,
            seed=purpose.seed,
            temperature=living.temperature if purpose.temperature is None else purpose.temperature,
        )

    def _build(self, version: AgentVersion) -> _Living:
        engine, renderer = None, None
        if version.kind == "local_model":
            engine, renderer = self._engine(version)[0], self.renderer(version)
            self._check_room(version, renderer)
        api_key = self._api_keys.get(version.agent, "")
        agent = build(version, limits=self.limits, renderer=renderer, api_key=api_key)
        living = _Living(agent, engine, temperature(version))
        self._living[version.id] = living
        return living

    def _check_room(self, version: AgentVersion, renderer: Renderer) -> None:
        """Raises ModelError where a context is full before any task: attempts would end before their first turn."""
        opening = len(renderer.open(Observation(""), version.prompt))
        room = self.limits.max_tokens or CONTEXT
        context = budget_of(version.parameters)
        if context is not None and context.tokens > room:
            raise ModelError(
                f"agent {version.id!r} has context_tokens = {context.tokens}, but a context may have {room}; lower "
                "it, or raise environment.max_tokens"
            )
        if opening >= room:
            raise ModelError(
                f"agent {version.id!r} reads {opening} tokens of prompt and tools before any task, but a context "
                f"may have {room}; raise environment.max_tokens"
            )

    def _engine(self, version: AgentVersion) -> tuple[Engine, LocalModel]:
        key = version.model, precision(version)
        if key not in self._engines:
            from upturn.models.engine import LocalEngine

            local = load_local(version.model, precision=precision(version))
            engine = LocalEngine(local.model, slots=SLOTS, max_length=self.limits.max_tokens or CONTEXT)
            self._engines[key] = (engine, local)
        return self._engines[key]


def renderer_of(local: LocalModel, version: AgentVersion, kit: EnvironmentKit) -> Renderer:
    """How the version is talked to in the kit, wherever its model runs. Raises ModelError for options of a chat
    template that it does not know.
    """
    return local.renderer(tools_of(kit), options=template_options(version))
