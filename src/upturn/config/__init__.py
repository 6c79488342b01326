"""The configuration file ``upturn.toml``: typed, frozen, and validated completely before any work.

A setting has one name, one default and one validation: the classes here, and those of algorithms in
``upturn.training``, are both the sections of the file and the arguments of the code. Start with ``settings`` (the
base of all sections), then ``config`` and ``load``.
"""

from upturn.config.combination import Contradiction
from upturn.config.config import CORE, TABLES, Config
from upturn.config.contradiction import contradictions
from upturn.config.family import FamilyRule
from upturn.config.gateway import GatewayConfig, RouteConfig
from upturn.config.keys import AccessConfig, LimitSettings, ProviderToolPolicy, TenantConfig, is_loopback
from upturn.config.learning import (
    DEFAULT_FLOOR,
    DEFAULT_MIX,
    AdapterSettings,
    CurriculumSettings,
    GateSettings,
    LevelSettings,
    OptimiserSettings,
    Packing,
    Precision,
    Recomputed,
    RolloutConfig,
)
from upturn.config.load import SHIPPED_MODELS, api_keys, load_config, overlaps, parse_config
from upturn.config.metric import MetricConfig, MetricLevel, declared_metrics, joint_reward, taught_metrics
from upturn.config.price import PriceConfig
from upturn.config.release import CanarySettings, ValidationSettings
from upturn.config.routing import USED_BY_POLICY, WITHOUT_OBJECTIVE, ObjectiveConfig, PolicyName, RoutingConfig
from upturn.config.sampling import FULL_DISTRIBUTION, SamplingSettings
from upturn.config.schedule import ScheduleConfig
from upturn.config.section import (
    HUB_NAME,
    AgentConfig,
    ContextConfig,
    EnvironmentConfig,
    Limits,
    LoopConfig,
    PoolConfig,
    ReadinessConfig,
    RewardConfig,
    RunConfig,
    TaskConfig,
    TrackerConfig,
)
from upturn.config.settings import (
    Count,
    FilePath,
    ImportPath,
    Name,
    NotNegative,
    Positive,
    Probability,
    Rate,
    Raw,
    Settings,
    Share,
    Url,
    WholeNumber,
    changed_settings,
    default_value,
    dump_settings,
    merge_settings,
    nested_settings,
    parse_settings,
    refuse,
    report_unused,
    settings,
)
from upturn.config.telemetry import TelemetryConfig
from upturn.config.upstream import TimeoutConfig, UpstreamConfig

__all__ = [
    "CORE",
    "DEFAULT_FLOOR",
    "DEFAULT_MIX",
    "FULL_DISTRIBUTION",
    "HUB_NAME",
    "SHIPPED_MODELS",
    "TABLES",
    "USED_BY_POLICY",
    "WITHOUT_OBJECTIVE",
    "AccessConfig",
    "AdapterSettings",
    "AgentConfig",
    "CanarySettings",
    "Config",
    "ContextConfig",
    "Contradiction",
    "Count",
    "CurriculumSettings",
    "EnvironmentConfig",
    "FamilyRule",
    "FilePath",
    "GateSettings",
    "GatewayConfig",
    "ImportPath",
    "LevelSettings",
    "LimitSettings",
    "Limits",
    "LoopConfig",
    "MetricConfig",
    "MetricLevel",
    "Name",
    "NotNegative",
    "ObjectiveConfig",
    "OptimiserSettings",
    "Packing",
    "PolicyName",
    "PoolConfig",
    "Positive",
    "Precision",
    "PriceConfig",
    "Probability",
    "ProviderToolPolicy",
    "Rate",
    "Raw",
    "ReadinessConfig",
    "Recomputed",
    "RewardConfig",
    "RolloutConfig",
    "RouteConfig",
    "RoutingConfig",
    "RunConfig",
    "SamplingSettings",
    "ScheduleConfig",
    "Settings",
    "Share",
    "TaskConfig",
    "TelemetryConfig",
    "TenantConfig",
    "TimeoutConfig",
    "TrackerConfig",
    "UpstreamConfig",
    "Url",
    "ValidationSettings",
    "WholeNumber",
    "api_keys",
    "changed_settings",
    "contradictions",
    "declared_metrics",
    "default_value",
    "dump_settings",
    "is_loopback",
    "joint_reward",
    "load_config",
    "merge_settings",
    "nested_settings",
    "overlaps",
    "parse_config",
    "parse_settings",
    "refuse",
    "report_unused",
    "settings",
    "taught_metrics",
]
