"""The office: mail, calendar and sheets of one person, with tasks generated from seeds and a pure verifier."""

from upturn.environments.office.environment import OPERATIONS, OfficeEnvironment
from upturn.environments.office.tasks import FAMILIES, LEARNED, compose, family_named, make_task, task_stream
from upturn.environments.office.verifier import OfficeVerifier

__all__ = [
    "FAMILIES",
    "LEARNED",
    "OPERATIONS",
    "OfficeEnvironment",
    "OfficeVerifier",
    "compose",
    "family_named",
    "make_task",
    "task_stream",
]
