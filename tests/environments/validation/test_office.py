"""Validation of the office: every family, a family with app faults, and renamed operations."""

import pytest

from upturn.environments import EnvironmentKit
from upturn.environments.office.kit import OfficeKit, RenamedKit
from upturn.environments.validation import Plan, validate_family

QUICK = ("mail_move", "mail_draft_unanswered")
"""Always looked at; all families are with ``make test-all``, and with 20 tasks each by
``upturn env validate office --tasks 20``."""
PLAN = Plan(tasks=2, random_trajectories=5)


def violations(kit: EnvironmentKit, family: str, plan: Plan) -> dict[str, str]:
    return {
        check.name: check.violation for check in validate_family(kit, family, plan).checks if check.holds is False
    }


@pytest.mark.parametrize(
    "family",
    [pytest.param(family, marks=() if family in QUICK else pytest.mark.slow) for family in OfficeKit().families],
)
def test_the_office_is_sound(family: str) -> None:
    assert violations(OfficeKit(), family, PLAN) == {}


@pytest.mark.slow
def test_the_office_is_sound_under_other_names() -> None:
    assert violations(RenamedKit(), "mail_reply", Plan(tasks=4, random_trajectories=5)) == {}
