"""Rubrics, verdicts, efficiency, costs and evaluation ids."""

import pytest

from upturn.records import GateResult, Observation, Turn
from upturn.rewards import Rubric, efficiency, evaluation_id, sum_costs, verdict_of


def test_the_score_is_the_weighted_mean_of_the_named_components() -> None:
    rubric = Rubric("r/1", {"success": 3.0, "speed": 1.0})
    assert rubric.score({"success": 1.0, "speed": 0.2, "length": 99.0}) == pytest.approx(0.8)
    assert rubric.score({"success": 0.0, "speed": 0.0}) == 0.0
    assert rubric.score({"success": 1.0, "speed": 1.0}) == 1.0


def test_missing_is_not_zero() -> None:
    """It is left out, and the rest renormalise."""
    rubric = Rubric("r/1", {"success": 3.0, "speed": 1.0})
    assert rubric.score({"success": 0.5, "speed": None}) == 0.5
    assert rubric.score({"success": 1.0}) == 1.0
    assert rubric.score({}) is None
    assert rubric.score({"success": 1.0, "speed": 0.0, "length": None}) == 0.75  # a metric without weight may be


@pytest.mark.parametrize(
    ("shortest", "turns", "share"), [(2, 2, 1.0), (2, 4, 0.5), (3, 4, 0.75), (3, 2, 1.0), (0, 0, 0.0)]
)
def test_efficiency_is_the_shortest_solution_over_the_turns_taken(shortest: int, turns: int, share: float) -> None:
    assert efficiency(is_success=True, shortest=shortest, turns=turns) == share
    assert efficiency(is_success=False, shortest=shortest, turns=turns) == 0.0


def test_success_needs_every_gate_and_no_gate_is_missing() -> None:
    passed, failed = GateResult("a", True), GateResult("b", False, "why")
    assert verdict_of([passed, passed]) == "success"
    assert verdict_of([passed, failed]) == "failure"
    assert verdict_of(iter([failed])) == "failure"
    assert verdict_of([]) == "missing"


def test_the_same_evaluation_has_the_same_id() -> None:
    assert evaluation_id("office/1", "t1") == evaluation_id("office/1", "t1") == "v-48e0495f21d1c128"
    assert len({evaluation_id(*pair) for pair in (("office/1", "t1"), ("office/2", "t1"), ("office/1", "t2"))}) == 3


def test_costs_are_summed_by_component() -> None:
    turns = [
        Turn(Observation("x"), "", None, costs={"error": 1.0, "safety": 0.5}),
        Turn(Observation("x"), "", None),
        Turn(Observation("x"), "", None, costs={"error": 1.0}),
    ]
    assert sum_costs(turns, ("error", "privacy")) == {"error": 2.0, "privacy": 0.0, "safety": 0.5}
    assert sum_costs([], ()) == {}
