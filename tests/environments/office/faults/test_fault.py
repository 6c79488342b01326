"""Fault plans: validation, addition and random draws."""

from typing import Any

import pytest

from upturn.environments.office.faults import Fault, FaultKind, FaultPlan, RateLimit
from upturn.errors import WorldError


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"kind": "timeout", "person": "ann.lee"}, "'timeout' does not use person, got 'ann.lee'"),
        ({"kind": "no_permission", "call": "outlook.send"}, "'no_permission' needs person, got ''"),
        ({"kind": "moved", "file": "f1", "to_id": "f2"}, "'moved' needs to_path, got ''"),
        ({"kind": "lost_answer", "is_lasting": True}, "only no_permission can be lasting, got 'lost_answer'"),
        ({"kind": "rate_limited", "times": 2}, "times is for unavailable and timeout, got 2 for 'rate_limited'"),
        ({"kind": "timeout", "nth": 0}, "nth and times are at least 1"),
        ({"kind": "timeout", "seconds": 0.0}, "seconds more than 0"),
    ],
)
def test_a_fault_refuses_what_has_no_effect_on_it(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(WorldError, match=why):
        Fault(**fields)


def test_a_rate_limit_must_allow_a_call() -> None:
    with pytest.raises(WorldError, match="at least 1 call"):
        RateLimit("outlook", 0)


def test_rates_are_limited_to_random_kinds_and_half_of_the_calls() -> None:
    with pytest.raises(WorldError, match=r"got 'moved': 0\.1"):
        FaultPlan(rates={"moved": 0.1})
    with pytest.raises(WorldError, match=r"at most 0\.5"):
        FaultPlan(rates={"timeout": 0.3, "unavailable": 0.3})


def test_plans_can_be_added_and_only_an_empty_one_is_false() -> None:
    first, second = Fault("timeout"), Fault("unavailable", "excel")
    limit = RateLimit("teams", 3)
    both = FaultPlan((first,), rates={"timeout": 0.1}, seed=4) + FaultPlan(
        (second,), (limit,), {"timeout": 0.125}, 4
    )

    assert both == FaultPlan((first, second), (limit,), {"timeout": 0.225}, 4)
    assert [bool(item) for item in (FaultPlan(), both, FaultPlan(limits=(limit,)))] == [False, True, True]
    with pytest.raises(WorldError, match="one seed, got 4 and 5"):
        both + FaultPlan(rates={"timeout": 0.1}, seed=5)


def test_random_faults_follow_from_seed_and_call_at_their_rates() -> None:
    rates: dict[FaultKind, float] = {"unavailable": 0.2, "lost_answer": 0.1}
    plan = FaultPlan(rates=rates, seed=7)
    values = [plan.random_kind(call) for call in range(10_000)]

    assert values == [FaultPlan(rates=rates, seed=7).random_kind(call) for call in range(10_000)]
    assert values != [FaultPlan(rates=rates, seed=8).random_kind(call) for call in range(10_000)]
    assert values.count("unavailable") == pytest.approx(2_000, abs=200)  # five standard deviations
    assert values.count("lost_answer") == pytest.approx(1_000, abs=150)
    assert set(values) == {"unavailable", "lost_answer", None}
    assert FaultPlan().random_kind(3) is None
