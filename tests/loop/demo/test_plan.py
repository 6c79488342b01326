"""What the demo works on: plans by name, and configurations that hold together."""

import pytest

from upturn.environments import resolve_kit
from upturn.environments.office import rule_agent as rules
from upturn.environments.office.tasks import FAMILIES
from upturn.loop.demo.plan import BRIEF, OFFICE, PLANS, RULES_PARTLY, TINY, DemoPlan, demo_config
from upturn.training.pretraining import find_recipe
from upturn.training.pretraining.office_recipe import RARE_FAMILIES


def test_plans_by_size() -> None:
    assert PLANS == {"tiny": TINY, "brief": BRIEF, "full": OFFICE}


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_a_plan_practises_what_is_served_at_the_levels_that_have_bars(plan: DemoPlan) -> None:
    families = resolve_kit("office").families
    assert set(plan.learned) <= set(plan.served) <= set(families)
    assert {families[name] for name in plan.learned} == set(plan.success_by_level)
    config = demo_config(seed=4, directory="runs", plan=plan)
    assert config.tasks.train_families == tuple(plan.learned)
    assert plan is TINY or config.tasks.heldout_count >= 400


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_what_its_model_was_never_shown_the_rules_know_in_part(plan: DemoPlan) -> None:
    unshown = set(plan.learned) - set(find_recipe("nano").families)
    assert unshown == set(RULES_PARTLY)
    assert set(RULES_PARTLY) < set(rules._PARTLY)


def test_the_brief_one_practises_what_its_model_was_shown_little_of_if_anything() -> None:
    assert len(BRIEF.learned) == 10  # as the command's help and the README say
    assert set(BRIEF.learned) - set(RULES_PARTLY) < set(RARE_FAMILIES)
    assert set(BRIEF.learned) < set(OFFICE.learned)
    assert sum("faults" in FAMILIES[name].atoms for name in BRIEF.learned) == 3


def test_the_long_one_has_twenty_families_with_traps_and_faults() -> None:
    assert len(OFFICE.learned) == 37  # as the command's help and the README say
    faulty = [name for name in OFFICE.learned if "faults" in FAMILIES[name].atoms]
    assert len(faulty) >= 4
    assert {"orders_in_a_mail", "reply_outside", "sensitive_sorted"} <= set(OFFICE.learned)
    assert any(len(FAMILIES[name].apps) > 2 for name in OFFICE.learned)
