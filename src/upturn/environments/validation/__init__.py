"""Validation without a model: whether tasks are solvable, and whether wrong solutions fail.

``validate_kit`` runs the kit's oracle (``OracleKit``), random actions and a panel of attacks on every family, and
compares repetitions. It goes beyond ``check_environment``, which comes first. Not covered: whether the tasks are
useful, and unknown attacks. Start with ``family`` (all checks of a family); ``case`` prepares a task, ``attack``,
``mutation``, ``leak`` and ``determinism`` are the checks.
"""

from upturn.environments.validation.attack import NEEDS_ORACLE, PANEL
from upturn.environments.validation.case import actions_of, make_case, random_policy
from upturn.environments.validation.family import RIGHT, Check, FamilyReport, Plan, validate_family
from upturn.environments.validation.kit import (
    configuration_notes,
    idle_evaluation,
    list_unchecked,
    validate_kit,
)
from upturn.environments.validation.schema_sampling import ParameterHistory, number_within

__all__ = [
    "NEEDS_ORACLE",
    "PANEL",
    "RIGHT",
    "Check",
    "FamilyReport",
    "ParameterHistory",
    "Plan",
    "actions_of",
    "configuration_notes",
    "idle_evaluation",
    "list_unchecked",
    "make_case",
    "number_within",
    "random_policy",
    "validate_family",
    "validate_kit",
]
