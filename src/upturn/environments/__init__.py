"""Where agents act: the contracts of environments, verifiers and kits, and the environments themselves.

An ``EnvironmentKit`` draws tasks, makes environments and verifies trajectories. Start with ``environment`` and
``kit``; ``one_step`` is the smallest kit, ``office`` the largest; ``programs`` has tasks with a
folder. ``checker`` tests a kit against its contract,
``validation`` goes further, ``adapters`` serve a kit to other projects. Not here: agents (``upturn.agents``) and
rewards (``upturn.rewards``).
"""

from upturn.environments.action import (
    MALFORMED,
    MAX_ACTION_LENGTH,
    action_text,
    executed_action,
    malformed_text,
    recordable_action,
    recordable_text,
)
from upturn.environments.checker import check_environment
from upturn.environments.environment import (
    BatchVerifier,
    Environment,
    Info,
    Step,
    Verifier,
    is_blocking,
    is_potential,
    verify,
    verify_all,
)
from upturn.environments.hint import HintedKit, HintingKit, add_hint, hint_of, hinted
from upturn.environments.kit import (
    CachingKit,
    DescribedKit,
    EnvironmentKit,
    RubricKit,
    draw_tasks,
    registered_kits,
    resolve_kit,
    tools_of,
    verifiers_of,
)
from upturn.environments.one_step import one_step
from upturn.environments.oracle_protocol import (
    CANARY_LENGTH,
    OracleKit,
    SolutionsKit,
    WorldHashKit,
    content_hash,
    oracle_of,
    world_hash_of,
)
from upturn.environments.programs import (
    FinishedAttempt,
    Graded,
    ProgramEnd,
    ProgramEnvironment,
    Solved,
    WorkspaceLimits,
    count_tests,
    program_kit,
    run_check,
    run_pytest,
)
from upturn.environments.scripted_policy import LONG_TURNS, ScriptedPolicy, fixed_policy, play
from upturn.environments.stepwise import TaskSelection, read_action

__all__ = [
    "CANARY_LENGTH",
    "LONG_TURNS",
    "MALFORMED",
    "MAX_ACTION_LENGTH",
    "BatchVerifier",
    "CachingKit",
    "DescribedKit",
    "Environment",
    "EnvironmentKit",
    "FinishedAttempt",
    "Graded",
    "HintedKit",
    "HintingKit",
    "Info",
    "OracleKit",
    "ProgramEnd",
    "ProgramEnvironment",
    "RubricKit",
    "ScriptedPolicy",
    "SolutionsKit",
    "Solved",
    "Step",
    "TaskSelection",
    "Verifier",
    "WorkspaceLimits",
    "WorldHashKit",
    "action_text",
    "add_hint",
    "check_environment",
    "content_hash",
    "count_tests",
    "draw_tasks",
    "executed_action",
    "fixed_policy",
    "hint_of",
    "hinted",
    "is_blocking",
    "is_potential",
    "malformed_text",
    "one_step",
    "oracle_of",
    "play",
    "program_kit",
    "read_action",
    "recordable_action",
    "recordable_text",
    "registered_kits",
    "resolve_kit",
    "run_check",
    "run_pytest",
    "tools_of",
    "verifiers_of",
    "verify",
    "verify_all",
    "world_hash_of",
]
