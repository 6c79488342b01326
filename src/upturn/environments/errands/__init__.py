"""Errands, a small office: mail, calendar and sheets of one person; tasks from seeds, and a pure verifier."""

from upturn.environments.errands.baseline import oracle
from upturn.environments.errands.environment import OPERATIONS, ErrandsEnvironment, apply
from upturn.environments.errands.family import CLOSERS, FINISH, OPENERS, call
from upturn.environments.errands.kit import ErrandsKit
from upturn.environments.errands.level2 import FUNCTIONS
from upturn.environments.errands.level3 import PRICES, PROPOSALS
from upturn.environments.errands.operation import OperationError
from upturn.environments.errands.tasks import FAMILIES, LEARNED, compose, family_named, make_task, task_stream
from upturn.environments.errands.verifier import ErrandsVerifier
from upturn.environments.errands.workspace import DAYS, Workspace
from upturn.environments.errands.world import FILING_FOLDERS, ITEMS, NAMES, PHRASES, SHEETS, TITLES, TOPICS, World

__all__ = [
    "CLOSERS",
    "DAYS",
    "FAMILIES",
    "FILING_FOLDERS",
    "FINISH",
    "FUNCTIONS",
    "ITEMS",
    "LEARNED",
    "NAMES",
    "OPENERS",
    "OPERATIONS",
    "PHRASES",
    "PRICES",
    "PROPOSALS",
    "SHEETS",
    "TITLES",
    "TOPICS",
    "ErrandsEnvironment",
    "ErrandsKit",
    "ErrandsVerifier",
    "OperationError",
    "Workspace",
    "World",
    "apply",
    "call",
    "compose",
    "family_named",
    "make_task",
    "oracle",
    "task_stream",
]
