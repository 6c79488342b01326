"""The one configuration file, ``upturn.toml``: typed, frozen, checked as a whole before any work."""

from upturn.config.config import Config
from upturn.config.contradiction import Contradiction, contradictions
from upturn.config.learning import (
    CurriculumConfig,
    GrpoConfig,
    LevelConfig,
    PracticeConfig,
    RolloutConfig,
    RoundsConfig,
    SftConfig,
)
from upturn.config.lesson import CriticConfig, ImitationConfig, PairConfig, SelfRepairConfig, StarConfig
from upturn.config.load import SHIPPED_MODELS, keys_in, load_config, parse_config
from upturn.config.section import (
    HUB_NAME,
    AgentConfig,
    CanaryConfig,
    ContextConfig,
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

__all__ = [
    "HUB_NAME",
    "SHIPPED_MODELS",
    "AgentConfig",
    "CanaryConfig",
    "Config",
    "ContextConfig",
    "Contradiction",
    "CriticConfig",
    "CurriculumConfig",
    "EnvironmentConfig",
    "GrpoConfig",
    "ImitationConfig",
    "LevelConfig",
    "LoopConfig",
    "PairConfig",
    "PoolConfig",
    "PracticeConfig",
    "ReadinessConfig",
    "RewardConfig",
    "RolloutConfig",
    "RoundsConfig",
    "RoutingConfig",
    "RunConfig",
    "Section",
    "SelfRepairConfig",
    "SftConfig",
    "StarConfig",
    "TaskConfig",
    "ValidationConfig",
    "contradictions",
    "keys_in",
    "load_config",
    "parse_config",
]
