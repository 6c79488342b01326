"""Composition of rubrics: properties for all weights and values, and each part by hand."""

import math
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upturn.config import IMPORTANCE, RewardConfig
from upturn.errors import ConfigError
from upturn.loop.trainers import parse_full_config
from upturn.records import Evaluation
from upturn.rewards import (
    Component,
    Gate,
    Rubric,
    Sequential,
    WeightedSum,
    configured_rubric,
    configured_score,
    score_of,
)

NAMES = "abcd"
_weights = st.dictionaries(
    st.sampled_from(NAMES), st.sampled_from([-1.0, -0.25, 0.0, 0.5, 1.0, 3.0]), min_size=1
).filter(lambda weights: any(weight > 0 for weight in weights.values()))
_values = st.fixed_dictionaries({name: st.none() | st.floats(0, 1) for name in NAMES})


def close(score: float | None, other: float | None) -> bool:
    return score is other if score is None or other is None else math.isclose(score, other, abs_tol=1e-9)


@given(_weights, _values, st.randoms())
def test_the_order_of_criteria_does_not_matter(
    weights: dict[str, float], values: dict[str, float | None], random: Any
) -> None:
    names = list(weights)
    random.shuffle(names)
    shuffled = {name: weights[name] for name in names}
    assert close(Rubric("r/1", weights).score(values), Rubric("r/1", shuffled).score(values))


@given(_weights, _values, st.floats(0.01, 100))
def test_only_the_ratios_of_weights_matter(
    weights: dict[str, float], values: dict[str, float | None], factor: float
) -> None:
    scaled = {name: weight * factor for name, weight in weights.items()}
    assert close(Rubric("r/1", weights).score(values), Rubric("r/1", scaled).score(values))


@given(_weights, _values, st.sampled_from(NAMES), st.floats(0, 1))
def test_a_positive_criterion_never_lowers_and_a_pitfall_never_raises(
    weights: dict[str, float], values: dict[str, float | None], name: str, raised: float
) -> None:
    """Also behind a gate, and in a sequence."""
    before = values[name]
    if before is None or raised < before:
        return
    positive = {key: weight for key, weight in weights.items() if weight > 0}
    parts = (
        WeightedSum(weights),
        Gate({"a": 0.5}, WeightedSum(weights)),
        Gate({name: 0.5}, WeightedSum(weights)),
        Sequential(positive),
    )
    for part in parts:
        old, new = score_of(part.terms(values)), score_of(part.terms({**values, name: raised}))
        if old is None or new is None:
            assert old is new
        elif weights.get(name, 0.0) < 0 and part is parts[0]:
            assert new <= old + 1e-9
        elif weights.get(name, 0.0) >= 0:
            assert new >= old - 1e-9


@given(_weights, _values)
def test_a_crashed_criterion_is_missing_and_the_rest_renormalise(
    weights: dict[str, float], values: dict[str, float | None]
) -> None:
    """The score equals that of a rubric without the missing positive criteria; a missing pitfall takes nothing."""
    known = {name: weight for name, weight in weights.items() if weight <= 0 or values[name] is not None}
    score = Rubric("r/1", weights).score(values)
    if not any(weight > 0 for weight in known.values()):
        assert score is None
        return
    lost = 0.0 - sum(weight * (values[name] or 0.0) for name, weight in weights.items() if weight < 0)
    total = sum(weight for weight in weights.values() if weight > 0)
    rest = Rubric("r/1", {name: weight for name, weight in known.items() if weight > 0}).score(values)
    assert rest is not None and close(score, rest - lost / total)


def test_explicit_aggregation_by_hand() -> None:
    """RaR's weights: 1, 0.7, 0.3 and a pitfall of 0.9. (1 + 0.35 + 0) / 2 − 0.9 · 0.5 / 2."""
    rubric = Rubric("care/1", dict(zip("abcd", IMPORTANCE.values(), strict=True)))
    assert rubric.score({"a": 1.0, "b": 0.5, "c": 0.0, "d": 0.5}) == pytest.approx(0.675 - 0.225)
    assert rubric.score({"a": 1.0, "b": 1.0, "c": 1.0, "d": 0.0, "metric": 0.0}) == 1.0


def test_a_gate_leaves_only_the_pitfalls() -> None:
    gate = Gate({"ok": 0.5}, WeightedSum({"a": 1.0, "trap": -0.5}))
    scores = [
        score_of(gate.terms({"a": 1.0, "trap": trap, "ok": ok})) for ok, trap in ((0.5, 0), (0.4, 0), (0.4, 1))
    ]
    assert scores == [1.0, 0.0, -0.5]
    assert score_of(gate.terms({"a": 1.0, "trap": 0.0})) is None  # not known whether it is open
    both = Gate({"ok": 0.5, "other": 0.5}, Component("a"))
    assert score_of(both.terms({"a": 1.0, "ok": 0.0})) == 0.0  # closed, whatever the other is


def test_stages_count_in_order() -> None:
    """Weights 1, 1, 2: the last stage counts only where both before it are reached."""
    stages = Sequential({"format": 1.0, "facts": 1.0, "style": 2.0}, {"facts": WeightedSum({"x": 1.0, "y": 1.0})})
    cases: list[tuple[Mapping[str, float | None], float | None]] = [
        ({"format": 1.0, "x": 1.0, "y": 1.0, "style": 0.5}, 0.75),
        ({"format": 1.0, "x": 1.0, "y": 0.0, "style": 1.0}, 0.375),
        ({"format": 0.5, "x": 1.0, "y": 1.0, "style": 1.0}, 0.125),
        ({"format": 1.0, "x": 1.0, "style": 0.5}, 2.5 / 3.5),  # y is missing: the stage is reached by x alone
        ({"x": 1.0, "y": 1.0, "style": 1.0}, None),
    ]
    assert [score_of(stages.terms(values)) for values, _ in cases] == [
        None if score is None else pytest.approx(score) for _, score in cases
    ]


def test_parts_within_parts_keep_their_weight() -> None:
    inner = WeightedSum({"b": 4.0, "c": 12.0})
    rubric = Rubric("r/1", {"a": 1.0, "inner": 1.0}, {"inner": inner})
    assert rubric.score({"a": 0.0, "b": 1.0, "c": 0.0}) == pytest.approx(0.125)
    assert sum(term.weight for term in rubric.terms({})) == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Rubric("r/1", {"a": 0.0, "b": -1.0}), "needs a component of positive weight"),
        (lambda: WeightedSum({"a": math.inf}), "weights must be finite, got inf for 'a'"),
        (lambda: WeightedSum({"a": 1.0}, {"b": Component("x")}), "the part 'b' has no weight; weights are for: a"),
        (lambda: Sequential({"a": 1.0, "b": 0.0}), "a stage needs a positive weight, got 0.0 for 'b'"),
    ],
)
def test_impossible_rubrics_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def judged(**rewards: float | None) -> Evaluation:
    return Evaluation("v", "t", "j", "desk/1", "success", (), rewards, {}, None)


def test_configured_rewards() -> None:
    config = RewardConfig(
        name="care",
        version=2,
        weights={"format": "optional", "success": "essential", "tricks": "pitfall", "words": 0.0},
        sequence=("format", "success"),
        gates={"safe": 1.0},
    )
    assert configured_rubric(config).name == "care/2"
    score = configured_score(config, judged(format=1.0, success=1.0, tricks=0.0, safe=1.0))
    assert score == 1.0
    assert configured_score(config, judged(format=0.5, success=1.0, tricks=0.0, safe=1.0)) == pytest.approx(
        0.15 / 1.3
    )
    assert configured_score(config, judged(format=1.0, success=1.0, tricks=1.0, safe=0.0)) == pytest.approx(
        -0.9 / 1.3
    )


def test_missing_components_in_configured_rewards() -> None:
    config = RewardConfig(weights={"success": 3.0, "judge": 1.0, "tricks": -1.0})
    strict = RewardConfig(weights={"success": 3.0, "judge": 1.0, "tricks": -1.0}, missing="unscored")
    crashed = judged(success=1.0, judge=None, tricks=0.0)
    assert configured_score(config, crashed) == 1.0
    assert configured_score(strict, crashed) is None
    assert configured_score(strict, judged(success=1.0, judge=0.0, tricks=None)) is None
    assert configured_score(strict, judged(success=1.0, judge=0.0, tricks=0.0)) == 0.75
    missing = Evaluation("v", "t", "j", "desk/1", "missing", (), {"judge": 1.0}, {}, None)
    assert configured_score(config, missing) is None  # without a verdict there is nothing to train on


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"weights": {}}, "at least one reward component with a positive weight"),
        ({"weights": {"a": "pitfall"}}, "at least one reward component with a positive weight"),
        ({"weights": {"a": "vital"}}, "the weight of 'a' must be a number or one of essential, important, opt"),
        (
            {"weights": {"a": 1.0, "b": -1.0}, "sequence": ["a", "b"]},
            "sequence names 'b', which has no positive weight",
        ),
        ({"weights": {"a": 1.0}, "sequence": ["a"]}, "sequence must name two or more components"),
        ({"measures": [{"name": "x", "kind": "cosine"}]}, "kind='cosine' needs tokens"),
        ({"measures": [{"name": "x", "kind": "format", "tokens": 3}]}, "tokens would do nothing with kind"),
        ({"measures": [{"name": "x", "kind": "lcpo_exact", "tokens": 3, "delta": 0.1}]}, "delta would do nothing"),
        ({"measures": [{"name": "x", "kind": "function"}]}, "kind='function' needs function"),
        ({"measures": [{"name": "x", "kind": "format"}] * 2}, "different names, got x more than once"),
    ],
)
def test_contradictions_in_configured_rewards(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        parse_full_config(
            {"agents": [{"name": "nano", "kind": "local_model", "model": "nano"}], "rewards": settings}
        )
    assert message in str(refusal.value)
