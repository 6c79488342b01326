"""Where agents act: the contracts of environments, verifiers and kits, and the environments themselves.

An ``EnvironmentKit`` draws tasks, makes environments and verifies trajectories. Start with ``environment`` and
``kit``; ``one_step`` is the smallest kit, ``office`` the largest. ``checker`` tests a kit against its contract,
``validation`` goes further, ``adapters`` serve a kit to other projects. Not here: agents (``upturn.agents``) and
rewards (``upturn.rewards``).
"""

from upturn.environments.action import LONGEST_ANSWER, MALFORMED, action_text, recordable_action, recordable_text
from upturn.environments.checker import check_environment
from upturn.environments.environment import Environment, Info, Step, Verifier, blocks, is_potential, judge
from upturn.environments.hint import HintedKit, HintingKit, hint_of, hinted
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
from upturn.environments.oracle_protocol import (
    CANARY_LENGTH,
    ProvenKit,
    WorldKit,
    content_hash,
    oracle_of,
    world_of,
)
from upturn.environments.scripted_policy import LONG_TURNS, Player, following, play
from upturn.environments.stepwise import TaskChoice, read_action

__all__ = [
    "CANARY_LENGTH",
    "LONGEST_ANSWER",
    "LONG_TURNS",
    "MALFORMED",
    "CachingKit",
    "DescribedKit",
    "Environment",
    "EnvironmentKit",
    "HintedKit",
    "HintingKit",
    "Info",
    "Player",
    "ProvenKit",
    "RubricKit",
    "Step",
    "TaskChoice",
    "Verifier",
    "WorldKit",
    "action_text",
    "blocks",
    "check_environment",
    "content_hash",
    "following",
    "hint_of",
    "hinted",
    "is_potential",
    "judge",
    "one_step",
    "oracle_of",
    "play",
    "read_action",
    "recordable_action",
    "recordable_text",
    "registered_kits",
    "resolve_kit",
    "tools_of",
    "verifiers_of",
    "world_of",
]
