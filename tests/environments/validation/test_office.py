"""The office under validation: one family of each level, one whose apps fail, one under other names."""

import pytest

from upturn.environments import EnvironmentKit
from upturn.environments.office.kit import OfficeKit, RenamedKit
from upturn.environments.validation import Plan, validate_family

CHOSEN = {
    "mail_move": 1,
    "table_summary": 3,
    "event_create_with": 2,
    "late_one_reminded": 4,
    "weekly_report": 5,
    "mail_draft_unanswered": 2,
}
"""With their levels; the last one has faults."""


def breaches(kit: EnvironmentKit, family: str, plan: Plan) -> dict[str, str]:
    return {each.name: each.breach for each in validate_family(kit, family, plan).checks if each.holds is False}


def test_every_level_is_chosen() -> None:
    assert {family: OfficeKit().families[family] for family in CHOSEN} == CHOSEN
    assert set(CHOSEN.values()) == set(OfficeKit().families.values())


@pytest.mark.slow
@pytest.mark.parametrize("family", CHOSEN)
def test_the_office_is_sound(family: str) -> None:
    assert breaches(OfficeKit(), family, Plan(tasks=4, random_attempts=5)) == {}


@pytest.mark.slow
def test_the_office_is_sound_under_other_names() -> None:
    assert breaches(RenamedKit(), "mail_reply", Plan(tasks=4, random_attempts=5)) == {}
