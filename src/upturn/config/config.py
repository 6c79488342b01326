"""The whole configuration: one frozen object, its hash, and the form in which it is saved with a run."""

import json
from hashlib import sha256
from typing import Annotated

from pydantic import AfterValidator

from upturn.config.learning import (
    CurriculumConfig,
    GrpoConfig,
    LoraConfig,
    OptimiserConfig,
    RolloutConfig,
    SftConfig,
)
from upturn.config.lesson import (
    DpoConfig,
    DpoRoundsConfig,
    IteratedConfig,
    KtoConfig,
    MixtureConfig,
    OfflineConfig,
    PpoConfig,
    RejectionConfig,
    RftConfig,
    SelfRepairConfig,
    StarConfig,
    WorldModelConfig,
)
from upturn.config.section import (
    AgentConfig,
    CanaryConfig,
    EnvironmentConfig,
    LoopConfig,
    PoolConfig,
    ReadinessConfig,
    RewardConfig,
    RoutingConfig,
    RunConfig,
    Section,
    TaskConfig,
    ValidationConfig,
)


def _some_agent(agents: tuple[AgentConfig, ...]) -> tuple[AgentConfig, ...]:
    if not agents:
        raise ValueError("at least one [[agents]] is needed")
    return agents


class Config(Section):
    """What ``upturn.toml`` says, every default filled in."""

    run: RunConfig = RunConfig()
    pool: PoolConfig = PoolConfig()
    readiness: ReadinessConfig = ReadinessConfig()
    agents: Annotated[tuple[AgentConfig, ...], AfterValidator(_some_agent)]
    environment: EnvironmentConfig = EnvironmentConfig()
    tasks: TaskConfig = TaskConfig()
    routing: RoutingConfig = RoutingConfig()
    rewards: RewardConfig = RewardConfig()
    optimiser: OptimiserConfig = OptimiserConfig()
    lora: LoraConfig = LoraConfig()
    rollouts: RolloutConfig = RolloutConfig()
    sft: SftConfig = SftConfig()
    grpo: GrpoConfig = GrpoConfig()
    curriculum: CurriculumConfig = CurriculumConfig()
    ppo: PpoConfig = PpoConfig()
    dpo: DpoConfig = DpoConfig()
    dpo_rounds: DpoRoundsConfig = DpoRoundsConfig()
    kto: KtoConfig = KtoConfig()
    rejection: RejectionConfig = RejectionConfig()
    iterated: IteratedConfig = IteratedConfig()
    star: StarConfig = StarConfig()
    self_repair: SelfRepairConfig = SelfRepairConfig()
    rft: RftConfig = RftConfig()
    world_model: WorldModelConfig = WorldModelConfig()
    offline: OfflineConfig = OfflineConfig()
    mixture: MixtureConfig = MixtureConfig()
    validation: ValidationConfig = ValidationConfig()
    canary: CanaryConfig = CanaryConfig()
    loop: LoopConfig = LoopConfig()

    @property
    def trains(self) -> bool:
        """True when a cycle trains a candidate; False: it routes and records only."""
        return self.sft.enabled or self.grpo.enabled

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
        canonical = json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
        return sha256(canonical.encode()).hexdigest()[:16]

    def to_json(self) -> str:
        """Every setting, defaults included, as indented JSON; ``parse_config`` reads it back."""
        return self.model_dump_json(indent=2) + "\n"
