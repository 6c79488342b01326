"""The whole configuration: one frozen object, its hash, and the form in which it is saved with a run."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Self

from upturn.config.learning import AdapterSettings, CurriculumSettings, OptimiserSettings, RolloutConfig
from upturn.config.release import CanarySettings, ValidationSettings
from upturn.config.section import (
    AgentConfig,
    EnvironmentConfig,
    LoopConfig,
    PoolConfig,
    ReadinessConfig,
    RewardConfig,
    RoutingConfig,
    RunConfig,
    TaskConfig,
)
from upturn.config.settings import AnySettings, Settings, dumped


@dataclass(frozen=True)
class Config:
    """What ``upturn.toml`` says, every default filled in."""

    agents: tuple[AgentConfig, ...]
    """At least one."""
    run: RunConfig
    pool: PoolConfig
    readiness: ReadinessConfig
    environment: EnvironmentConfig
    tasks: TaskConfig
    routing: RoutingConfig
    rewards: RewardConfig
    optimiser: OptimiserSettings
    """Those of the file; what goes with an algorithm is in the algorithm's section."""
    lora: AdapterSettings | None
    """None = whole models are trained."""
    rollouts: RolloutConfig
    curriculum: CurriculumSettings | None
    """None = families are sampled by what they failed before training."""
    validation: ValidationSettings
    canary: CanarySettings
    loop: LoopConfig
    algorithms: Mapping[str, Settings]
    """The sections of algorithms, by name."""

    def section(self, kind: type[AnySettings]) -> AnySettings:
        """The section of an algorithm, by its class; raises LookupError where the file was read without it."""
        for each in self.algorithms.values():
            if type(each) is kind:
                return each
        raise LookupError(f"no section is a {kind.__name__}: the file was read without it")

    def with_sections(self, *sections: Settings, **core: Any) -> Self:
        """The same with these sections of algorithms, each in place of that of its class, and other core ones."""
        kinds = {type(each): each for each in sections}
        algorithms = {name: kinds.pop(type(each), each) for name, each in self.algorithms.items()}
        assert not kinds, f"no sections are {kinds}"
        return replace(self, algorithms=algorithms, **core)

    @property
    def trains(self) -> bool:
        """True when a cycle trains a candidate; False: it routes and records only."""
        return bool(self.loop.train)

    @property
    def improved_agent(self) -> AgentConfig | None:
        """The agent that is trained; None when nothing trains."""
        if not self.trains:
            return None
        local = [agent for agent in self.agents if agent.kind == "local_model"]
        return next(agent for agent in local if self.loop.improve in ("", agent.name))

    @property
    def config_hash(self) -> str:
        """16 hex digits over every setting, defaults included: equal hashes are equal configurations."""
        canonical = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))
        return sha256(canonical.encode()).hexdigest()[:16]

    def to_dict(self) -> dict[str, Any]:
        """Every setting, defaults included, as JSON has it; ``parse_config`` reads it back."""
        core = {name: getattr(self, name) for name in CORE}
        found: dict[str, Any] = {"agents": [dumped(agent) for agent in self.agents]}
        for name, value in (core | dict(self.algorithms)).items():
            if name != "agents":
                found[name] = None if value is None else dumped(value)
        return found

    def to_json(self) -> str:
        """Every setting, defaults included, as indented JSON; ``parse_config`` reads it back."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n"


CORE: Mapping[str, type[Settings]] = {
    "run": RunConfig,
    "pool": PoolConfig,
    "readiness": ReadinessConfig,
    "agents": AgentConfig,
    "environment": EnvironmentConfig,
    "tasks": TaskConfig,
    "routing": RoutingConfig,
    "rewards": RewardConfig,
    "optimiser": OptimiserSettings,
    "lora": AdapterSettings,
    "rollouts": RolloutConfig,
    "curriculum": CurriculumSettings,
    "validation": ValidationSettings,
    "canary": CanarySettings,
    "loop": LoopConfig,
}
"""The sections that there are without any algorithm, by name, in the order in which they are documented."""
OPTIONAL = ("lora", "curriculum")
"""Those that mean something by not being there."""
