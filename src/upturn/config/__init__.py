"""The one configuration file, ``upturn.toml``: typed, frozen, checked as a whole before any work."""

from upturn.config.config import Config
from upturn.config.contradiction import Contradiction, contradictions
from upturn.config.learning import GrpoConfig, PracticeConfig, RoundsConfig, SftConfig
from upturn.config.load import keys_in, load_config, parse_config
from upturn.config.section import (
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
    "AgentConfig",
    "CanaryConfig",
    "Config",
    "ContextConfig",
    "Contradiction",
    "EnvironmentConfig",
    "GrpoConfig",
    "LoopConfig",
    "PoolConfig",
    "PracticeConfig",
    "ReadinessConfig",
    "RewardConfig",
    "RoundsConfig",
    "RoutingConfig",
    "RunConfig",
    "Section",
    "SftConfig",
    "TaskConfig",
    "ValidationConfig",
    "contradictions",
    "keys_in",
    "load_config",
    "parse_config",
]
