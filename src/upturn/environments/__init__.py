"""Where agents act: the contract of an environment, kits by name, two offices, and environments of one step."""

from upturn.environments.checker import check_environment
from upturn.environments.environment import Environment, Info, Step, Verifier, blocks
from upturn.environments.hint import HintingKit, hint_of
from upturn.environments.kit import (
    CachingKit,
    DescribedKit,
    EnvironmentKit,
    RubricKit,
    registered_kits,
    resolve_kit,
    tools_of,
    verifiers_of,
)
from upturn.environments.one_step import one_step
from upturn.environments.player import Player, play
from upturn.environments.proof import ProvenKit, WorldKit, content_hash, oracle_of, world_of

__all__ = [
    "CachingKit",
    "DescribedKit",
    "Environment",
    "EnvironmentKit",
    "HintingKit",
    "Info",
    "Player",
    "ProvenKit",
    "RubricKit",
    "Step",
    "Verifier",
    "WorldKit",
    "blocks",
    "check_environment",
    "content_hash",
    "hint_of",
    "one_step",
    "oracle_of",
    "play",
    "registered_kits",
    "resolve_kit",
    "tools_of",
    "verifiers_of",
    "world_of",
]
