"""Errands, a small office: mail, calendar and sheets of one person; tasks from seeds, and a pure verifier."""

from upturn.environments.errands.environment import OPERATIONS, ErrandsEnvironment
from upturn.environments.errands.tasks import FAMILIES, LEARNED, compose, family_named, make_task, task_stream
from upturn.environments.errands.verifier import ErrandsVerifier

__all__ = [
    "FAMILIES",
    "LEARNED",
    "OPERATIONS",
    "ErrandsEnvironment",
    "ErrandsVerifier",
    "compose",
    "family_named",
    "make_task",
    "task_stream",
]
