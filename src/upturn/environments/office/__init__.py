"""The office: tasks across the apps of one workspace, their environment and their verifiers.

``state`` is the workspace, ``apps`` its operations, ``formulas`` the spreadsheet functions, ``faults`` the failures
of apps, ``generation`` draws offices and tasks, ``families`` has the kinds of tasks, ``frozen`` the fixed
suites, and ``files`` reads and writes real documents. ``verifier`` evaluates a trajectory. Not here: the contract
of environments and kits (``environments``). Start with ``kit``, then ``environment``.
"""

from upturn.environments.office.kit import OfficeKit
from upturn.environments.office.measure import Measure, measure
from upturn.environments.office.rubric import RubricVerifier
from upturn.environments.office.suites import RECIPES, Suite, freeze, suite_named, tasks_of, write_suite
from upturn.environments.office.tasks import FAMILIES, LATER, compose, family_named, make_task
from upturn.environments.office.timing import TimedKit

__all__ = [
    "FAMILIES",
    "LATER",
    "RECIPES",
    "Measure",
    "OfficeKit",
    "RubricVerifier",
    "Suite",
    "TimedKit",
    "compose",
    "family_named",
    "freeze",
    "make_task",
    "measure",
    "suite_named",
    "tasks_of",
    "write_suite",
]
