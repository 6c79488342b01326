"""The agent runtime: agent versions with their engines loaded, ready for rollouts."""

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from upturn.agents import (
    Agent,
    AttemptAgent,
    BranchPoint,
    EndpointAgent,
    Job,
    PausedRollout,
    RolloutRequest,
    Setting,
    build,
    endpoint_of,
    example_count,
    examples_text,
    precision,
    run_rollouts,
    run_until,
    sampling,
    temperature,
    template_options,
)
from upturn.agents.context import budget_of
from upturn.config import DEFAULT_CONTEXT_TOKENS, Limits, SamplingSettings
from upturn.environments import EnvironmentKit, tools_of
from upturn.errors import ModelError
from upturn.models import CallSchema, ChatRenderer, LocalModel, Model, Precision, Renderer, load_local
from upturn.records import AgentVersion, Observation, Recall, Task, Trajectory, from_fields

if TYPE_CHECKING:
    from upturn.agents.program import MakeUpstream

TROUBLE_SECONDS = 10.0
"""An endpoint that answers no call for so long is noted. Answers of large models take longer, but some come."""
LONGEST_PAUSE_SECONDS = 60.0
"""Between two notes."""
SLOTS = 192
"""Maximum number of concurrent rollouts, and rows of the engine's cache."""


@dataclass(frozen=True, slots=True)
class Purpose:
    """Identifies a batch of rollouts; makes their ids unique and their random draws independent."""

    key: str
    """Part of every trajectory id."""
    seed: int
    """Rollouts with equal (seed, task, number, turn) draw the same."""
    temperature: float | None = None
    """None = the version's serving temperature."""
    sampling: SamplingSettings | None = None
    """None = the version's options; with a ``temperature``, only its stop strings."""

    def sampling_of(self, version: AgentVersion) -> tuple[float, SamplingSettings]:
        """The temperature and the options at which the version is sampled."""
        options = sampling(version)
        if self.temperature is None:
            return temperature(version), self.sampling or options
        return self.temperature, self.sampling or SamplingSettings(stop=options.stop)


class Engine(Model, Protocol):
    """A model with caches."""

    @property
    def version(self) -> str:
        """Hash of the weights; empty = unknown."""

    def refresh(self) -> None:
        """Takes the present weights, and clears all caches; no requests may run."""


@dataclass(frozen=True, slots=True)
class _LoadedAgent:
    agent: Agent | AttemptAgent
    engine: Engine | None
    renderer: Renderer | None


class AgentRuntime:
    """Builds each agent version once and runs its rollouts in one environment. Not thread-safe."""

    def __init__(
        self,
        kit: EnvironmentKit,
        limits: Limits,
        api_keys: Mapping[str, str] | None = None,
        note: Callable[[str], None] = lambda _: None,
        *,
        device: str = "cpu",
        recall: Recall | None = None,
    ) -> None:
        """``api_keys``: of endpoint agents, by agent name; None = no agent needs one. ``note`` is called with a
        sentence about an endpoint that does not answer. ``device``: of local models. ``recall``: finds the examples
        of agents; None = no agent may have any."""
        self.kit = kit
        self.limits = limits
        self.device = device
        """Of local models, also in training."""
        self.recall = recall
        self._api_keys = dict(api_keys or {})
        self._note = note
        self._loaded: dict[str, _LoadedAgent] = {}
        self._engines: dict[tuple[str, Precision], tuple[Engine, LocalModel]] = {}

    def replace_keys(self, api_keys: Mapping[str, str]) -> None:
        """Continues with other API keys; agents whose key is another one are built again."""
        before, self._api_keys = self._api_keys, dict(api_keys)
        for version_id in list(self._loaded):
            agent = version_id.rpartition("@")[0]
            if before.get(agent, "") != self._api_keys.get(agent, ""):
                del self._loaded[version_id]

    def rollout(
        self,
        jobs: Sequence[tuple[AgentVersion, Task, int]],
        purpose: Purpose,
        branch_points: Sequence[BranchPoint] | None = None,
    ) -> list[Trajectory]:
        """One trajectory for each (version, task, number), in order.

        ``branch_points``: the state from which each job continues; None = all start from their task.
        """
        indices: dict[str, int] = {}
        known: dict[tuple[int, str], str] = {}
        rollouts = []
        starts = [None] * len(jobs) if branch_points is None else branch_points
        for (version, task, number), start in zip(jobs, starts, strict=True):
            index = indices.setdefault(task.id, len(indices))
            text = "" if start is not None else self._examples(version, task, known)
            request = RolloutRequest(task, number, index, start, examples=text)
            rollouts.append(Job(request, self._setting(version, purpose)))
        self._refresh(rollouts)
        return asyncio.run(self._watched(run_rollouts(rollouts, self.kit.environment, slots=SLOTS)))

    def rollout_until(
        self,
        version: AgentVersion,
        requests: Sequence[RolloutRequest],
        purpose: Purpose,
        *,
        is_enough: Callable[[Trajectory], bool],
    ) -> list[Trajectory | PausedRollout]:
        """Rollouts of one version until ``is_enough`` is True for a finished one, in order; the others are paused.

        A request may continue a rollout that was paused, also one that other weights started.
        """
        known: dict[tuple[int, str], str] = {}
        rollouts = [
            Job(
                replace(request, examples=self._examples(version, request.task, known)),
                self._setting(version, purpose),
            )
            for request in requests
        ]
        self._refresh(rollouts)
        return asyncio.run(run_until(rollouts, self.kit.environment, slots=SLOTS, is_enough=is_enough))

    def _examples(self, version: AgentVersion, task: Task, known: dict[tuple[int, str], str]) -> str:
        """The text of the version's examples for a task; ``known``: those of earlier calls, by number and task."""
        count = example_count(version)
        if not count:
            return ""
        if self.recall is None:
            raise ModelError(
                f"agent {version.id!r} has examples = {count}, but there is no pool here to find them in; name one "
                "with --pool, or set examples = 0"
            )
        if (count, task.id) not in known:
            known[count, task.id] = examples_text(self.recall.similar(task, count))
        return known[count, task.id]

    def _refresh(self, rollouts: Sequence[Job]) -> None:
        """Cached state changes the last digits of log-probs, and a resumed process starts with empty caches."""
        engines = {id(job.setting.model): self._loaded[job.setting.agent_version].engine for job in rollouts}
        for engine in engines.values():
            if engine is not None:
                engine.refresh()

    async def _watched(self, rollouts: Coroutine[Any, Any, list[Trajectory]]) -> list[Trajectory]:
        """The trajectories; notes endpoints that do not answer meanwhile, at first soon, then ever more rarely."""
        work = asyncio.ensure_future(rollouts)
        pause = TROUBLE_SECONDS / 2
        while not (await asyncio.wait({work}, timeout=pause))[0]:
            for name, loaded in self._loaded.items():
                if isinstance(loaded.agent, EndpointAgent) and (text := loaded.agent.trouble(TROUBLE_SECONDS)):
                    self._note(f"trouble: agent {name!r}: {text}")
                    pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
        return work.result()

    def renderer(self, version: AgentVersion) -> Renderer:
        """The renderer of a version with a local model."""
        return build_renderer(self._engine(version)[1], version, self.kit)

    def adopt(self, version: AgentVersion, engine: Engine, renderer: Renderer) -> None:
        """Serves ``version`` from an existing engine, such as that of a model in training."""
        self._load(version, engine, renderer)

    def sibling(self, kit: EnvironmentKit | None = None) -> "AgentRuntime":
        """Another runtime with the same limits, for another thread or another kit (None: the same)."""
        return type(self)(kit or self.kit, self.limits, note=self._note, device=self.device, recall=self.recall)

    def engine_for(self, local: LocalModel) -> Engine:
        """An engine that samples from the model's weights, as they are at each ``refresh``."""
        from upturn.models.engine import LocalEngine

        max_length = self.limits.max_tokens or DEFAULT_CONTEXT_TOKENS
        return LocalEngine(local.model, slots=SLOTS, max_length=max_length, tokenizer=local.tokenizer)

    def keep_only(self, versions: Iterable[AgentVersion]) -> None:
        """Unloads all other versions and their engines; they are loaded again on demand."""
        kept = list(versions)
        ids, models = {version.id for version in kept}, {version.model for version in kept}
        self._loaded = {name: agent for name, agent in self._loaded.items() if name in ids}
        self._engines = {key: engine for key, engine in self._engines.items() if key[0] in models}

    def _setting(self, version: AgentVersion, purpose: Purpose) -> Setting:
        if version.id not in self._loaded:
            engine, renderer = None, None
            if version.has_local_model:
                engine, renderer = self._engine(version)[0], self.renderer(version)
            self._load(version, engine, renderer)
        loaded = self._loaded[version.id]
        heat, options = purpose.sampling_of(version)
        return Setting(
            key=purpose.key,
            agent=loaded.agent,
            agent_version=version.id,
            model=loaded.engine,
            limits=self.limits,
            seed=purpose.seed,
            temperature=heat,
            sampling=options,
            calls=calls_of(options, loaded.renderer),
            fixes_sampling=purpose.temperature is not None,
        )

    def _load(self, version: AgentVersion, engine: Engine | None, renderer: Renderer | None) -> None:
        if renderer is not None:
            self._check_context(version, renderer)
        self._loaded[version.id] = _LoadedAgent(self.agent_of(version, renderer), engine, renderer)

    def agent_of(self, version: AgentVersion, renderer: Renderer | None) -> Agent | AttemptAgent:
        """The agent of a version in this environment. ``renderer``: of its local model; None = it has none."""
        return build(
            version,
            limits=self.limits,
            renderer=renderer,
            api_key=self._api_keys.get(version.agent, ""),
            tools=tools_of(self.kit),
            note=lambda text: self._note(f"agent {version.id!r}: {text}"),
            others=self._other_models(version),
        )

    def _other_models(self, version: AgentVersion) -> "dict[str, MakeUpstream]":
        """The models that a program names besides its own, by name: versions within its parameters."""
        described = version.parameters.get("models", {})
        assert isinstance(described, Mapping)
        others: dict[str, MakeUpstream] = {}
        for name, fields in described.items():
            other = from_fields(AgentVersion, json.dumps(fields))
            others[name] = self._other_model(name, other)
        return others

    def _other_model(self, name: str, version: AgentVersion) -> "MakeUpstream":
        from upturn.agents.program import endpoint_model, other_model
        from upturn.models.upstreams import script_for

        if version.kind == "endpoint":
            return endpoint_model(endpoint_of(version, self._api_keys.get(version.agent, "")))
        engine, local = self._engine(version)
        script = script_for(build_renderer(local, version, self.kit), version.prompt)
        return other_model(
            name,
            engine,
            script,
            self.limits,
            temperature=temperature(version),
            sampling=sampling(version),
        )

    def _check_context(self, version: AgentVersion, renderer: Renderer) -> None:
        """Raises ModelError if the context budget or the prompt alone exceeds the maximum context."""
        prompt_tokens = len(renderer.open(Observation(""), version.prompt))
        maximum = self.limits.max_tokens or DEFAULT_CONTEXT_TOKENS
        budget = budget_of(version.parameters)
        if budget is not None and budget.tokens > maximum:
            raise ModelError(
                f"agent {version.id!r} has context_tokens = {budget.tokens}, but the maximum context is {maximum}; "
                "lower it, or raise environment.max_tokens"
            )
        if prompt_tokens >= maximum:
            raise ModelError(
                f"agent {version.id!r} has a prompt and tools of {prompt_tokens} tokens, but the maximum context "
                f"is {maximum}; raise environment.max_tokens"
            )

    def _engine(self, version: AgentVersion) -> tuple[Engine, LocalModel]:
        key = version.model, precision(version)
        if key not in self._engines:
            local = load_local(version.model, precision=precision(version), device=self.device)
            self._engines[key] = (self.engine_for(local), local)
        return self._engines[key]


def calls_of(options: SamplingSettings, renderer: Renderer | None) -> CallSchema | None:
    """The calls that an output must be one of; None where ``calls_only`` is off.

    Raises ModelError for a renderer without them.
    """
    if not options.calls_only or renderer is None:
        return None
    if not isinstance(renderer, ChatRenderer):
        raise ModelError(
            "sampling.calls_only needs a model with a chat template, which lists the tools; the compact grammar of "
            "nano has no schema: leave it out"
        )
    return renderer.call_schema()


def build_renderer(local: LocalModel, version: AgentVersion, kit: EnvironmentKit) -> Renderer:
    """The renderer of a version's model in the kit, wherever the model runs.

    Raises ModelError for options that its chat template does not have.
    """
    tools = () if version.kind == "program" else tools_of(kit)  # a program offers its own
    return local.renderer(tools, options=template_options(version))
