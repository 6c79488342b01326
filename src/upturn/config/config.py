"""The complete configuration, its hash, and its JSON form."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Self

from upturn.config.gateway import GatewayConfig
from upturn.config.keys import AccessConfig
from upturn.config.learning import (
    AdapterSettings,
    CurriculumSettings,
    OptimiserSettings,
    RewardConfig,
    RolloutConfig,
)
from upturn.config.metric import TrafficConfig
from upturn.config.price import PriceConfig
from upturn.config.release import CanarySettings, ValidationSettings
from upturn.config.routing import RoutingConfig
from upturn.config.section import (
    AgentConfig,
    EnvironmentConfig,
    LoopConfig,
    PoolConfig,
    ReadinessConfig,
    RunConfig,
    ScheduleConfig,
    TaskConfig,
    TrackerConfig,
)
from upturn.config.settings import AnySettings, Settings, dump_settings
from upturn.config.telemetry import TelemetryConfig


@dataclass(frozen=True)
class Config:
    """The complete configuration: all sections with their defaults."""

    agents: tuple[AgentConfig, ...]
    """At least one."""
    prices: Mapping[str, PriceConfig]
    """By name, see ``price_of``."""
    run: RunConfig
    pool: PoolConfig
    readiness: ReadinessConfig
    traffic: TrafficConfig | None
    """None = training on stored data reads the environment's trajectories."""
    environment: EnvironmentConfig
    tasks: TaskConfig
    routing: RoutingConfig
    rewards: RewardConfig
    optimiser: OptimiserSettings
    """The shared settings; those in effect for an algorithm are in its section."""
    lora: AdapterSettings | None
    """None = training of all weights."""
    rollouts: RolloutConfig
    curriculum: CurriculumSettings | None
    """None = families are sampled by their failure rate before training."""
    trackers: TrackerConfig
    validation: ValidationSettings
    canary: CanarySettings
    loop: LoopConfig
    schedule: ScheduleConfig | None
    """None = the loop ends after ``loop.cycles`` cycles, unless the command says otherwise."""
    gateway: GatewayConfig
    access: AccessConfig
    telemetry: TelemetryConfig
    algorithms: Mapping[str, Settings]
    """The sections of algorithms, by name."""

    def section(self, kind: type[AnySettings]) -> AnySettings:
        """Returns an algorithm's section by class; raises LookupError if the file was loaded without it."""
        for section in self.algorithms.values():
            if type(section) is kind:
                return section
        raise LookupError(f"no section is a {kind.__name__}: the file was loaded without it")

    def with_sections(self, *sections: Settings, **core: Any) -> Self:
        """Returns a copy with these sections in place of those of the same class, and other core sections."""
        kinds = {type(section): section for section in sections}
        algorithms = {name: kinds.pop(type(section), section) for name, section in self.algorithms.items()}
        assert not kinds, f"no sections of the classes {kinds}"
        return replace(self, algorithms=algorithms, **core)

    @property
    def trains(self) -> bool:
        """True if a cycle trains a candidate; False = it only routes and records."""
        return bool(self.loop.train)

    @property
    def improved_agent(self) -> AgentConfig | None:
        """The agent that is trained; None = no training."""
        if not self.trains:
            return None
        local = [agent for agent in self.agents if agent.has_local_model]
        return next(agent for agent in local if self.loop.improve in ("", agent.name))

    def price_of(self, agent: str, model: str) -> PriceConfig | None:
        """Returns the price of an agent's tokens with a model; None = unknown.

        It is that of the agent's ``price``, else of the model. All versions of a local model have one price.
        """
        for member in self.agents:
            if member.name == agent and (member.price or member.has_local_model):
                return self.prices.get(member.price or member.model)
        return self.prices.get(model)

    @property
    def config_hash(self) -> str:
        """16 hexadecimal digits of a hash over every setting, including defaults."""
        canonical = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))
        return sha256(canonical.encode()).hexdigest()[:16]

    def to_dict(self) -> dict[str, Any]:
        """Returns every setting, including defaults, as JSON data; ``parse_config`` reads it back."""
        core = {name: getattr(self, name) for name in CORE if name not in TABLES}
        prices = {name: dump_settings(price) for name, price in self.prices.items()}
        return {"agents": [dump_settings(agent) for agent in self.agents], "prices": prices} | {
            name: None if section is None else dump_settings(section)
            for name, section in (core | dict(self.algorithms)).items()
        }

    def to_json(self) -> str:
        """Returns ``to_dict`` as indented JSON text."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n"


CORE: Mapping[str, type[Settings]] = {
    "run": RunConfig,
    "pool": PoolConfig,
    "readiness": ReadinessConfig,
    "traffic": TrafficConfig,
    "agents": AgentConfig,
    "prices": PriceConfig,
    "environment": EnvironmentConfig,
    "tasks": TaskConfig,
    "routing": RoutingConfig,
    "rewards": RewardConfig,
    "optimiser": OptimiserSettings,
    "lora": AdapterSettings,
    "rollouts": RolloutConfig,
    "curriculum": CurriculumSettings,
    "trackers": TrackerConfig,
    "validation": ValidationSettings,
    "canary": CanarySettings,
    "loop": LoopConfig,
    "schedule": ScheduleConfig,
    "gateway": GatewayConfig,
    "access": AccessConfig,
    "telemetry": TelemetryConfig,
}
"""The sections that do not belong to an algorithm, by name, in the order of their documentation."""
TABLES: Mapping[str, str] = {"agents": "[[agents]]", "prices": "[prices.NAME]"}
"""Sections that are several tables, and how a file writes them."""
OPTIONAL = ("lora", "curriculum", "schedule", "traffic")
"""Sections that are None unless the file has them."""
