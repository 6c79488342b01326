"""A run under way: its folder, journal, pool, agents and router, opened together and closed together."""

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, fields, replace
from itertools import islice
from pathlib import Path
from typing import Literal

from upturn import __version__
from upturn.agents.context import Budget, parameters_of
from upturn.arbiter import AgentRegistry, DiscountedThompson, Router, RuleBasedRouting, RunKey, Tally, Uniform
from upturn.config import AdapterSettings, AgentConfig, Config, Limits
from upturn.environments import EnvironmentKit
from upturn.loop.agent_runtime import AgentRuntime, Purpose
from upturn.loop.failure_summary import FailureProgress
from upturn.loop.progress import Progress
from upturn.loop.run.journal import Journal
from upturn.loop.run.preflight import checked_kit
from upturn.loop.run.settings import adapter_settings
from upturn.loop.run.task_source import served_families, trained_families
from upturn.loop.service import Service
from upturn.pool import Pool
from upturn.records import AgentVersion, JsonValue, Run, Task, fields_json
from upturn.threads import cpu_quota, default_threads, usable_cores
from upturn.training.distributed import World

LearnedPolicy = DiscountedThompson | RuleBasedRouting | Uniform


@dataclass
class Position:
    """Where a run stands, which is all that changes in a context."""

    tasks_served: int = 0
    """Of the stream of this run's service."""
    cycle: int = 1
    """Which turn of the loop this is."""


@dataclass(frozen=True)
class Context:
    """What the steps of a run read. Router, journal and pool have states of their own."""

    config: Config
    run_dir: Path
    run_id: str
    journal: Journal
    pool: Pool
    kit: EnvironmentKit
    runtime: AgentRuntime
    router: Router
    policy: LearnedPolicy
    service: Service
    progress: Progress
    world: World | None = None
    """The processes that train together, of which this is the first; None = it trains alone."""
    sampler_key: str = ""
    """What the engine of ``[rollouts]`` is shown; empty = none."""
    position: Position = field(default_factory=Position)
    """Where the run stands."""

    @property
    def seed(self) -> int:
        """Everything random in this run is derived from it."""
        return self.config.run.seed

    @property
    def adapter(self) -> AdapterSettings | None:
        """What is trained in place of a whole model; None = that is trained."""
        return adapter_settings(self.config, seed=self.seed)

    @property
    def tenant(self) -> str:
        """Whose evidence this run makes."""
        return self.config.pool.tenant

    @property
    def families(self) -> list[str]:
        """Families that are served."""
        return served_families(self.config, self.kit)

    @property
    def trained_families(self) -> list[str]:
        """Families that are trained and evaluated."""
        return trained_families(self.config, self.kit)

    def finish(self) -> None:
        """Marks the run as done in the pool."""
        self.pool.append(self._run("done"))

    def begin(self) -> None:
        """Marks the run as running in the pool, unless it was done already."""
        if not any(run.id == self.run_id for run in self.pool.states(Run)):
            self.pool.append(self._run("running"))

    def _run(self, state: Literal["running", "done"]) -> Run:
        command = self.journal.progress().key.command
        return Run(self.run_id, command, self.config.config_hash, self.seed, __version__, state)

    def next_tasks(self, count: int) -> list[Task]:
        """The next tasks of the service's stream, which depends on the run's seed only."""
        stream = self.kit.tasks(seed=self.seed, split="train", families=self.families)
        tasks = list(islice(stream, self.position.tasks_served, self.position.tasks_served + count))
        self.position.tasks_served += len(tasks)
        return tasks

    def routing_state(self) -> JsonValue:
        """What serving has changed besides the pool: to be journalled after each step that serves."""
        return {
            "policy": self.policy.state(),
            "registry": self.router.registry.state(),
            "tasks_served": self.position.tasks_served,
        }

    def restore_routing(self, state: JsonValue) -> None:
        """Goes back to a journalled state."""
        assert isinstance(state, dict)
        self.policy.restore(str(state["policy"]))
        self.router.registry.restore(str(state["registry"]))
        served = state["tasks_served"]
        assert isinstance(served, int)
        self.position.tasks_served = served

    def purpose(self, name: str, temperature: float | None = None) -> Purpose:
        """Attempts of this run under a name of their own."""
        return Purpose(f"{self.run_id}/{name}", self.seed, temperature)


@contextmanager
def open_run(
    config: Config,
    run_dir: Path,
    command: str,
    progress: Progress,
    *,
    api_keys: Mapping[str, str] | None = None,
    world: World | None = None,
) -> Iterator[Context]:
    """Opens the run in ``run_dir``, begun here or before; raises ConfigError for what it names and is not there.

    ``api_keys``: by the environment variable that holds them (``config.api_keys``); None = none is needed. Raises
    JournalError when the folder holds another run, StoreBusyError when its pool is in use.
    """
    kit = checked_kit(config)
    needs_torch = any(agent.kind == "local_model" for agent in config.agents)
    with (
        Journal.open(run_dir, config_hash=config.config_hash, version=__version__, command=command) as journal,
        Pool.open(config.pool.path or run_dir / "pool.db") as pool,
        torch_set(_threads(config, world)) if needs_torch else nullcontext(),
    ):
        (run_dir / "config.json").write_text(config.to_json())
        keys = api_keys or {}
        runtime = AgentRuntime(
            kit, limits_of(config), {agent.name: keys.get(agent.api_key_env, "") for agent in config.agents}
        )
        policy = policy_of(config)
        registry = AgentRegistry()
        for agent in config.agents:
            version = keep_agent_version(pool, version_of(agent))
            registry.add(version, max_concurrent=agent.load_cap)
        run_id = run_dir.name
        router = Router(registry, policy, RunKey(run_id, config.run.seed))
        service = Service(runtime, router, pool, Purpose(f"{run_id}/service", config.run.seed))
        told = FailureProgress(progress, service.failures)
        key = keys.get(config.rollouts.api_key_env, "")
        context = Context(
            config, run_dir, run_id, journal, pool, kit, runtime, router, policy, service, told, world, key
        )
        context.begin()
        yield context


def keep_agent_version(pool: Pool, version: AgentVersion) -> AgentVersion:
    """Stores the version, and gives it a name of its own where a shared pool knows its name from another run."""
    if any(known.id == version.id and known != version for known in pool.agent_versions()):
        digest = hashlib.blake2b(fields_json(version).encode(), digest_size=4).hexdigest()
        version = replace(version, version=f"{version.version}-{digest}")
    pool.append(version)
    return version


def version_of(agent: AgentConfig) -> AgentVersion:
    """The first version of a configured agent."""
    parameters: dict[str, JsonValue] = {}
    if agent.kind in ("local_model", "endpoint"):
        parameters["temperature"] = agent.temperature
    if agent.template_options:
        parameters["template_options"] = {**agent.template_options}
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
    model = {"local_model": agent.model, "endpoint": agent.url}.get(agent.kind, agent.import_path)
    return AgentVersion(
        agent.name,
        "base",
        agent.kind,
        model=model,
        model_name=agent.model if agent.kind == "endpoint" else "",
        prompt=agent.prompt,
        parameters=parameters,
        capabilities=agent.environments,
    )


def limits_of(config: Config) -> Limits:
    """What one attempt may take."""
    return Limits(**{each.name: getattr(config.environment, each.name) for each in fields(Limits)})


def policy_of(config: Config) -> LearnedPolicy:
    """The configured routing policy, knowing nothing yet."""
    routing = config.routing
    tally = Tally(discount=routing.discount)
    if routing.policy == "thompson":
        return DiscountedThompson(floor=routing.floor, tally=tally)
    if routing.policy == "uniform":
        return Uniform(tally=tally)
    return RuleBasedRouting(routing.rules, routing.default_agent, floor=routing.floor, tally=tally)


def _threads(config: Config, world: World | None) -> int:
    """Of torch, in each process: as configured, else this process's cores, which all of them share."""
    processes = 1 if world is None else world.size
    return config.run.threads or default_threads(usable_cores(), cpu_quota(), processes=processes)


@contextmanager
def torch_set(threads: int) -> Iterator[None]:
    """Threads are set, never left to chance: two torch processes that each take all cores crawl.

    Numbers below 2^-1022 count as 0 meanwhile, here and in torch: they slow small models down and say nothing.
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
