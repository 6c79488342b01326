"""The demo's plans are consistent with the office, the shipped model and the rules."""

from dataclasses import replace

import pytest

from upturn.deployment.rule import PROMOTE
from upturn.deployment.simulation import Scenario, simulate
from upturn.environments import resolve_kit
from upturn.environments.office import rule_agent as rules
from upturn.environments.office.tasks import FAMILIES
from upturn.loop.demo.plan import BRIEF, OFFICE, PLANS, RULES_PARTLY, TINY, DemoPlan, demo_config
from upturn.training.pretraining import find_recipe
from upturn.training.pretraining.office_recipe import RARE_FAMILIES


def test_plans_by_size() -> None:
    assert PLANS == {"tiny": TINY, "brief": BRIEF, "full": OFFICE}


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_a_plan_trains_on_served_families_of_the_levels_with_bars(plan: DemoPlan) -> None:
    families = resolve_kit("office").families
    assert set(plan.trained_families) <= set(plan.families) <= set(families)
    assert {families[name] for name in plan.trained_families} == set(plan.min_success_by_level)
    config = demo_config(seed=4, directory="runs", plan=plan)
    assert config.tasks.train_families == tuple(plan.trained_families)
    assert plan is TINY or config.tasks.heldout_count >= 400


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_the_rules_know_the_families_without_pretraining_in_part(plan: DemoPlan) -> None:
    new = set(plan.trained_families) - set(find_recipe("nano").families)
    assert new == set(RULES_PARTLY)
    assert set(RULES_PARTLY) < set(rules._PARTLY)


def test_the_brief_plan_trains_on_families_with_little_or_no_pretraining() -> None:
    assert len(BRIEF.trained_families) == 10  # as the command's help and the README say
    assert set(BRIEF.trained_families) - set(RULES_PARTLY) < set(RARE_FAMILIES)
    assert set(BRIEF.trained_families) < set(OFFICE.trained_families)
    assert sum("faults" in FAMILIES[name].atoms for name in BRIEF.trained_families) == 3


def test_the_tiny_canary_can_promote_a_version_without_violations() -> None:
    """Held-out success of the tiny run was .21 before and .61 after."""
    canary = demo_config(seed=0, directory="runs", plan=TINY).canary
    outcome = simulate(Scenario(0.21, 0.61, "promote"), canary, runs=100, seed=0)
    assert outcome.decided(PROMOTE).mean() > 0.95
    strict = simulate(Scenario(0.21, 0.61, "promote"), replace(canary, safety_margin=0.02), runs=100, seed=0)
    assert strict.decided(PROMOTE).mean() == 0


def test_the_full_plan_has_families_with_traps_and_faults() -> None:
    assert len(OFFICE.trained_families) == 37  # as the command's help and the README say
    faulty = [name for name in OFFICE.trained_families if "faults" in FAMILIES[name].atoms]
    assert len(faulty) >= 4
    assert {"orders_in_a_mail", "reply_outside", "sensitive_sorted"} <= set(OFFICE.trained_families)
    assert any(len(FAMILIES[name].apps) > 2 for name in OFFICE.trained_families)
