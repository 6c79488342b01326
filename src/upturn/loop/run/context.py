"""A run's context: its folder, journal, pool, agents and router, opened and closed together."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import islice
from pathlib import Path
from typing import Literal

from upturn import __version__
from upturn.agents.context import Budget, parameters_of
from upturn.arbiter import (
    AgentRegistry,
    Constraints,
    Learner,
    MinimumCoverage,
    Router,
    RunKey,
    StoredPolicy,
    make_policy,
)
from upturn.config import PARALLEL, AdapterSettings, AgentConfig, ApiKeys, Config, Limits
from upturn.environments import EnvironmentKit, draw_tasks
from upturn.errors import ConfigError
from upturn.loop.agent_runtime import AgentRuntime, Purpose
from upturn.loop.failure_summary import FailureProgress
from upturn.loop.progress import Progress
from upturn.loop.recall import embedder_of
from upturn.loop.run.configured_freeze import apply_configured_freeze
from upturn.loop.run.in_service import InService
from upturn.loop.run.journal import Journal
from upturn.loop.run.objective import objective_of
from upturn.loop.run.preflight import load_checked_kit
from upturn.loop.run.reward_models import check_same_models
from upturn.loop.run.task_source import served_families, trained_families
from upturn.loop.service import Service
from upturn.models import choose_device, describe_device
from upturn.pool import Pool, recall_before
from upturn.pool.checkpoints import checkpointed_pool
from upturn.pool.leases import holding
from upturn.pool.serving import RouterSnapshot
from upturn.records import AgentVersion, JsonValue, Run, Task, fields_json
from upturn.threads import cpu_quota, default_threads, usable_cores
from upturn.training.distributed import World

_UNNAMED = "default"
"""SGLang's name for weights without a name."""


@dataclass
class Position:
    """Progress of a run: the mutable part of its context."""

    tasks_served: int = 0
    """Tasks taken from the service's stream."""
    cycle: int = 1
    """Number of the current cycle of the loop."""


@dataclass(frozen=True)
class Context:
    """What the steps of a run share. Router, journal and pool are mutable."""

    config: Config
    run_dir: Path
    run_id: str
    journal: Journal
    pool: Pool
    kit: EnvironmentKit
    runtime: AgentRuntime
    router: Router
    policy: StoredPolicy
    learner: Learner
    in_service: InService
    service: Service
    progress: Progress
    world: World | None = None
    """The processes that train together, of which this is the first; None means a single process."""
    api_keys: ApiKeys = field(default_factory=ApiKeys, repr=False)
    """API keys of servers."""
    position: Position = field(default_factory=Position)

    @property
    def seed(self) -> int:
        """The seed that everything random in this run is derived from."""
        return self.config.run.seed

    @property
    def adapter(self) -> AdapterSettings | None:
        """The adapter that is trained; None means that whole models are trained."""
        return adapter_settings(self.config, seed=self.seed)

    @property
    def tenant(self) -> str:
        """The tenant that the run's records belong to."""
        return self.config.pool.tenant

    @property
    def families(self) -> list[str]:
        """Served families."""
        return served_families(self.config, self.kit)

    @property
    def trained_families(self) -> list[str]:
        """Families for training and held-out evaluation."""
        return trained_families(self.config, self.kit)

    def is_trained_agent(self, version: AgentVersion) -> bool:
        """Whether the version is of a local model that no other configured agent serves."""
        others = {member.name for member in self.config.agents if member is not self.config.improved_agent}
        return version.has_local_model and version.agent not in others

    def finish(self) -> None:
        """Marks the run as done in the pool."""
        self.pool.append(self._run("done"))

    def start(self) -> None:
        """Marks the run as running in the pool, unless the pool has it already; agents recall what was before."""
        if not any(run.id == self.run_id for run in self.pool.states(Run)):
            self.pool.append(self._run("running"))
        embedder = embedder_of(self.config.pool, self.api_keys, self.pool)
        self.runtime.recall = recall_before(self.pool, self.run_id, embedder)

    def _run(self, state: Literal["running", "done"]) -> Run:
        command = self.journal.progress().key.command
        return Run(self.run_id, command, self.config.config_hash, self.seed, __version__, state)

    def next_tasks(self, count: int) -> list[Task]:
        """The next tasks of the service's stream, a pure function of the run's seed."""
        stream = draw_tasks(self.kit, seed=self.seed, split="train", families=self.families)
        tasks = list(islice(stream, self.position.tasks_served, self.position.tasks_served + count))
        self.position.tasks_served += len(tasks)
        return tasks

    def routing_state(self) -> JsonValue:
        """State that serving changes besides the pool; to be journalled after each step that serves."""
        return {
            "policy": self.policy.state(),
            "sequence": self.learner.sequence,
            "registry": self.router.registry.state(),
            "tasks_served": self.position.tasks_served,
        }

    def restore_routing(self, state: JsonValue) -> None:
        """Restores a journalled state."""
        assert isinstance(state, dict)
        served, sequence = state["tasks_served"], state["sequence"]
        assert isinstance(served, int)
        assert isinstance(sequence, int)
        self.learner.restore(RouterSnapshot(str(state["policy"]), sequence))
        self.router.registry.restore(str(state["registry"]))
        self.in_service.forget()  # a step that is not in the journal serves what the pool says now
        self.position.tasks_served = served

    def purpose(self, name: str, temperature: float | None = None) -> Purpose:
        """Identifies rollouts of this run by a name."""
        return Purpose(f"{self.run_id}/{name}", self.seed, temperature)


def _begin_service(context: Context) -> None:
    """Begins with what earlier runs on the pool have learned and promoted; a resumed run, as it began."""

    apply_configured_freeze(context.pool, context.config.routing)

    def begin() -> JsonValue:
        context.learner.start()
        context.in_service.sync()
        return context.routing_state()

    context.router.constraints = Constraints(context.config.agents, context.config.access.tenants)
    context.restore_routing(context.journal.json_step("begin", begin))


@contextmanager
def open_run(
    config: Config,
    run_dir: Path,
    command: str,
    progress: Progress,
    *,
    api_keys: ApiKeys | None = None,
    world: World | None = None,
) -> Iterator[Context]:
    """Opens a new or interrupted run in ``run_dir``.

    A command that only trains begins with the configured versions, others with what the pool's earlier runs have
    learned and promoted. ``api_keys``: None means that none is needed.
    Raises ConfigError for names that cannot be resolved, JournalError when the folder holds another run,
    StoreBusyError when its pool is in use.
    """
    kit = _checked_kit(config, run_dir, world)
    needs_torch, keys = _needs_torch(config), api_keys or ApiKeys()
    with (
        Journal.open(run_dir, config_hash=config.config_hash, version=__version__, command=command) as journal,
        _open_pool(config, run_dir) as pool,
        configure_torch(_threads(config, world)) if needs_torch else nullcontext(),
        _open_runtime(config, kit, run_dir, keys=keys, progress=progress, world=world) as runtime,
    ):
        device = runtime.device
        check_same_models(journal, kit.verifier)
        (run_dir / "config.json").write_text(config.to_json())
        policy = policy_of(config)
        in_service = _configured_agents(config, pool, registry := AgentRegistry())
        run_id, seed = run_dir.name, config.run.seed
        learner = Learner(pool, policy, tenant=config.pool.tenant, metrics=config.gateway.metrics)
        router = Router(registry, policy, RunKey(run_id, seed), objective=objective_of(config, registry, learner))
        service = Service(runtime, router, pool, Purpose(f"{run_id}/service", seed), learner=learner)
        progress = FailureProgress(progress, service.failures)
        world = None if world is None else replace(world, device=device)
        context = Context(
            config,
            run_dir,
            run_id,
            journal,
            pool,
            kit,
            runtime,
            router,
            policy,
            learner,
            in_service,
            service,
            progress,
            world,
            keys,
        )
        if needs_torch:
            progress.note(f"device: {describe_device(device)}")
        for warning in keys.warnings:
            progress.note(f"warning: {warning}")
        context.start()
        if not command.startswith("train"):
            _begin_service(context)
        yield context


@contextmanager
def _open_pool(config: Config, run_dir: Path) -> Iterator[Pool]:
    """The run's pool, in which no other process does the same run."""
    with (
        checkpointed_pool(config.pool.path or run_dir / "pool.db", config.pool.checkpoints) as pool,
        holding(pool, f"run {run_dir.name}") as held,
    ):
        yield held


def _checked_kit(config: Config, run_dir: Path, world: World | None) -> EnvironmentKit:
    """The kit, after all checks: a refused run leaves no folder, one to resume is refused without torch."""
    kit = load_checked_kit(config)
    if not run_dir.exists():
        _checked_device(config, world)
    return kit


def _configured_agents(config: Config, pool: Pool, registry: AgentRegistry) -> InService:
    """Stores the configured versions and puts them into service."""
    in_service = InService(pool, registry)
    for agent in config.agents:
        version = store_agent_version(pool, version_of(agent, config.agents))
        registry.add(version, max_concurrent=agent.load_cap)
        in_service.configure(version, max_concurrent=agent.load_cap)
    return in_service


@contextmanager
def _open_runtime(
    config: Config,
    kit: EnvironmentKit,
    run_dir: Path,
    *,
    keys: ApiKeys,
    progress: Progress,
    world: World | None,
) -> Iterator[AgentRuntime]:
    """The runtime of the configured agents; with an engine at a URL, it samples the trained agent there.

    Opened after the journal: a run that cannot resume is refused before torch is loaded.
    """
    device = _checked_device(config, world)
    limits, rollouts = limits_of(config), config.rollouts
    agent_keys = {member.name: keys.of(member) for member in config.agents}
    if rollouts.place != "engine":
        yield AgentRuntime(kit, limits, agent_keys, progress.note, device=device)
        return
    from upturn.loop.engine_runtime import EngineHost, EngineRuntime
    from upturn.models import RemoteEngine, RemoteSettings

    settings = RemoteSettings(
        rollouts.url,
        rollouts.dialect,
        max_length=rollouts.max_length,
        timeout_seconds=rollouts.timeout_seconds,
        logprobs=None if rollouts.logprobs == "auto" else rollouts.logprobs,
        form="adapter" if rollouts.dialect == "vllm" and config.lora is not None else "checkpoint",
    )
    remote = RemoteEngine(settings, _UNNAMED, api_key=keys.of(rollouts))
    stored = None if rollouts.weights == "auto" else rollouts.weights
    host = EngineHost(remote, transfer_folder(config, run_dir), stored=stored)
    try:
        here = frozenset(member.name for member in config.agents if member is not config.improved_agent)
        runtime = EngineRuntime(kit, limits, host, served_here=here, api_keys=agent_keys, note=progress.note)
        runtime.device = device
        yield runtime
    finally:
        host.close()


def transfer_folder(config: Config, run_dir: Path) -> Path:
    """The folder through which a run hands weights over to samplers."""
    folder = config.rollouts.folder
    return Path(folder) / run_dir.name if folder else run_dir / "handed-over"


def store_agent_version(pool: Pool, version: AgentVersion) -> AgentVersion:
    """Stores the version; renames it first where the pool holds another version with its name."""
    if any(known.id == version.id and known != version for known in pool.agent_versions()):
        digest = hashlib.blake2b(fields_json(version).encode(), digest_size=4).hexdigest()
        version = replace(version, version=f"{version.version}-{digest}")
    pool.append(version)
    return version


def version_of(agent: AgentConfig, agents: Sequence[AgentConfig] = ()) -> AgentVersion:
    """The first version of a configured agent.

    ``agents``: all of the configuration, among which a program's further models are; empty = it names none.
    """
    others = {member.name: member for member in agents}
    parameters: dict[str, JsonValue] = {}
    if agent.has_local_model or agent.kind == "endpoint":
        parameters["temperature"] = agent.temperature
    if options := agent.sampling.as_parameters():
        parameters["sampling"] = options
    calls = {"timeout_seconds": agent.timeout_seconds, "retries": agent.retries}
    parameters |= {name: value for name, value in calls.items() if value is not None}
    if agent.kind == "endpoint":
        forms = {"dialect": (agent.upstream.dialect, "chat"), "tools": (agent.tools, "auto")}
        parameters |= {name: value for name, (value, default) in forms.items() if value != default}
    if agent.kind == "program":
        program: dict[str, JsonValue] = {
            "dialect": agent.upstream.dialect,
            "import_path": agent.import_path,
            "command": [*agent.command],
            "parallel": 0 if agent.program.parallel == PARALLEL else agent.program.parallel,
            "sandbox": asdict(agent.program.limits) if agent.program.sandbox else None,
            "own_process": agent.program.own_process,
            "readable": [*agent.program.readable],
            "models": {name: _described(others[other]) for name, other in agent.program.models.items()},
        }
        parameters |= {name: value for name, value in program.items() if value and value != "chat"}
    if agent.template_options:
        parameters["template_options"] = {**agent.template_options}
    if agent.examples:
        parameters["examples"] = agent.examples
    if agent.weights != "float32":
        parameters["weights"] = agent.weights
    context = agent.context
    if context.tokens is not None:
        budget = Budget(
            context.tokens,
            context.window_turns,
            context.longest_observation(context.tokens),
            summary_tokens=context.summary_tokens,
            low_mark=context.low_mark,
        )
        parameters |= parameters_of(budget)
    model = agent.import_path
    if agent.kind in ("local_model", "endpoint", "program"):
        model = agent.model if agent.has_local_model else agent.url
    return AgentVersion(
        agent.name,
        "base",
        agent.kind,
        model=model,
        model_name=agent.model if agent.kind in ("endpoint", "program") and agent.url else "",
        prompt=agent.prompt,
        parameters=parameters,
        capabilities=agent.environments,
    )


def _described(agent: AgentConfig) -> JsonValue:
    """The agent's version as a part of another's recipe."""
    described: JsonValue = json.loads(fields_json(version_of(agent)))
    return described


def adapter_settings(config: Config, *, seed: int) -> AdapterSettings | None:
    """``[lora]``, with this seed unless it has its own; None means that whole models are trained."""
    lora = config.lora
    return replace(lora, seed=seed) if lora is not None and lora.seed is None else lora


def _needs_torch(config: Config) -> bool:
    return any(agent.has_local_model for agent in config.agents)


def _checked_device(config: Config, world: World | None) -> str:
    """The device of a run's models. Raises ConfigError where it, or a setting of memory for it, is impossible."""
    device = device_of(config, world) if _needs_torch(config) else "cpu"
    check_optimisers(config, device)
    return device


def device_of(config: Config, world: World | None) -> str:
    """The device of a run's models in this process. Raises ConfigError for one that is not available."""
    setting = config.run.device
    if world is None:
        return choose_device(setting)
    device = world.device if setting == "auto" else choose_device(setting, local_rank=world.local_rank)
    if device != "cpu" and world.device == "cpu":
        raise ConfigError(
            [f"run.device = {setting!r} contradicts ACCELERATE_USE_CPU=true, which connects CPUs; remove one"]
        )
    return device


def check_optimisers(config: Config, device: str) -> None:
    """Raises ConfigError for an optimiser that would be offloaded to the memory that it is in anyway."""
    shared = ["optimiser"] if config.optimiser.offload else []
    sections = [
        f"{name}.optimiser"
        for name, section in config.algorithms.items()
        if getattr(section, "optimiser", config.optimiser).offload
    ]
    if device == "cpu" and (names := shared or sections):
        raise ConfigError(
            [
                f"{names[0]}.offload = true has no effect on the device 'cpu', whose memory is the host's; remove "
                "it, or set run.device to another device"
            ]
        )


def limits_of(config: Config) -> Limits:
    """The configured limits of one rollout."""
    return Limits(**{limit.name: getattr(config.environment, limit.name) for limit in fields(Limits)})


def policy_of(config: Config) -> StoredPolicy:
    """The configured routing policy, untrained."""
    policy = make_policy(config.routing)
    if not config.routing.min_outcomes:
        return policy
    return MinimumCoverage(policy, outcomes=config.routing.min_outcomes, share=config.routing.min_outcomes_share)


def _threads(config: Config, world: World | None) -> int:
    """Torch threads per process: as configured, else an equal share of the available cores."""
    processes = 1 if world is None else world.size
    return config.run.threads or default_threads(usable_cores(), cpu_quota(), processes=processes)


@contextmanager
def configure_torch(threads: int) -> Iterator[None]:
    """Sets the number of torch threads, and flushes denormal numbers to 0, inside the context.

    Two torch processes that each use all cores are very slow, and so are small models with denormal numbers.
    """
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)
        torch.set_num_threads(before)
