"""Validation without a model: whether an environment's tasks can be solved, and whether anything else pays.

``validate_kit`` plays every family with the kit's oracle (``ProvenKit``), with random actions and with a panel
of attackers, and compares what should be the same. It goes beyond ``check_environment``, which comes first. Not
covered: whether the tasks are worth doing, and attacks that nobody thought of.
"""

from upturn.environments.validation.attack import NEEDS_ORACLE, PANEL
from upturn.environments.validation.case import actions_of, make_case, random_player
from upturn.environments.validation.family import Check, FamilyReport, Plan, validate_family
from upturn.environments.validation.kit import unchecked, validate_kit
from upturn.environments.validation.schema_sampling import Habits, number_within

__all__ = [
    "NEEDS_ORACLE",
    "PANEL",
    "Check",
    "FamilyReport",
    "Habits",
    "Plan",
    "actions_of",
    "make_case",
    "number_within",
    "random_player",
    "unchecked",
    "validate_family",
    "validate_kit",
]
