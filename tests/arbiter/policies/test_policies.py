"""The policies with shared code: contract, state, borrowing, forgetting, handicaps."""

from collections.abc import Callable
from dataclasses import replace
from math import log, sqrt

import numpy as np
import pytest

from tests.arbiter.policies.outcomes import AB, decision_of, route, task_of, teach
from upturn.arbiter import (
    UCB1,
    AgentRegistry,
    CheapestAboveBar,
    FixedWeights,
    GaussianThompson,
    HierarchicalThompson,
    LinearThompson,
    LinUCB,
    LogisticThompson,
    NearestNeighbours,
    Router,
    RoutingOutcome,
    RunKey,
    SlidingThompson,
    check_routing_policy,
)
from upturn.arbiter.features import SIZE, task_features
from upturn.arbiter.policies import LearningPolicy
from upturn.arbiter.policies.change import SHIFTS, ChangeDetector
from upturn.arbiter.policies.regression import RegressionPolicy
from upturn.errors import RecordError
from upturn.records import AgentVersion, Task

MAKERS: list[Callable[[], LearningPolicy]] = [
    HierarchicalThompson,
    LinearThompson,
    LinUCB,
    UCB1,
    lambda: FixedWeights({"a": 3.0, "b": 1.0}),
    lambda: CheapestAboveBar(0.8),
    LogisticThompson,
    NearestNeighbours,
    GaussianThompson,
    lambda: GaussianThompson(window=20),
    lambda: GaussianThompson(discount=0.9),
    lambda: SlidingThompson(window=20),
]


@pytest.mark.parametrize("make", MAKERS)
def test_policies_fulfil_the_contract(make: Callable[[], LearningPolicy]) -> None:
    assert check_routing_policy(make) == []


@pytest.mark.parametrize("make", MAKERS)
def test_a_replayed_and_a_restored_policy_have_the_same_bits(make: Callable[[], LearningPolicy]) -> None:
    generator = np.random.default_rng(0)
    outcomes = [
        (f"f{generator.integers(4)}", AB[number % 2].version, None if number % 9 == 0 else generator.random())
        for number in range(120)
    ]
    one, replayed, restored = make(), make(), make()
    teach(one, outcomes)
    teach(replayed, outcomes)
    restored.restore(one.state())
    for other in (replayed, restored):
        assert other.state() == one.state()
        assert other.snapshot() == one.snapshot()
        assert list(other.probabilities(task_of("f1"), AB)) == list(one.probabilities(task_of("f1"), AB))
    teach(one, [("f1", "a@1", 1.0)])
    teach(restored, [("f1", "a@1", 1.0)])
    assert restored.state() == one.state()


def test_the_state_of_another_policy_and_damaged_states_are_refused() -> None:
    with pytest.raises(RecordError, match="is of policy 'ucb1', not of 'thompson'"):
        HierarchicalThompson().restore(UCB1().state())
    policy = LinUCB()
    teach(policy, [("mail", "a@1", 1.0)])
    with pytest.raises(RecordError, match=r"base64|finite"):
        policy.restore(policy.state().replace("AAAA", "A", 1))


def test_missing_outcomes_teach_nothing_but_are_counted() -> None:
    policy = HierarchicalThompson()
    before = policy.probabilities(task_of(), AB)
    teach(policy, [("mail", "a@1", None)] * 5)
    assert list(policy.probabilities(task_of(), AB)) == list(before)
    assert policy.tally.count("mail", "a@1").missing == 5


def test_a_new_family_borrows_what_versions_show_elsewhere() -> None:
    policy = HierarchicalThompson()
    teach(policy, [(f"f{n % 10}", *pair) for n in range(150) for pair in (("a@1", 1.0), ("b@1", float(n % 2)))])
    assert policy.belief("new", "a@1").mean > 0.9
    assert policy.probabilities(task_of("new"), AB)[0] > 0.95


def test_an_even_prior_gives_equal_chances_and_the_floor_holds() -> None:
    policy = HierarchicalThompson(floor=0.02)
    assert list(policy.probabilities(task_of(), AB)) == [0.5, 0.5]
    teach(policy, [("mail", "a@1", 1.0), ("mail", "b@1", 0.0)] * 100)
    assert policy.probabilities(task_of(), AB)[1] == pytest.approx(0.01, abs=1e-6)


def test_handicaps_are_subtracted_from_rewards() -> None:
    policy = HierarchicalThompson()
    for n in range(100):
        teach(policy, [("mail", "a@1", float(n % 10 > 0)), ("mail", "b@1", float(n % 5 > 0))])
    dear = (replace(AB[0], handicap=0.3), AB[1])
    assert policy.probabilities(task_of(), AB)[0] > 0.8
    assert policy.probabilities(task_of(), dear)[0] < 0.02


def test_a_collapse_of_the_best_version_is_noticed_within_100_tasks() -> None:
    families = [f"f{n}" for n in range(20)]
    policy = HierarchicalThompson()
    route(policy, dict.fromkeys(families, (0.9, 0.6)), 1000, seed=1)
    after = route(policy, dict.fromkeys(families, (0.1, 0.6)), 200, seed=2)
    # In each of 200 simulated runs the second version got at least 88 of these 100 tasks.
    assert after[100:].count(1) >= 85, "P(chance) < 1e-2"


def test_a_false_alarm_does_not_leave_a_version_underrated() -> None:
    policy = HierarchicalThompson()
    families = [f"f{n}" for n in range(20)]
    route(policy, dict.fromkeys(families, (0.8, 0.65)), 1500, seed=1)
    bad_luck = 0
    while policy._versions["a@1"].outcomes:
        teach(policy, [(families[bad_luck % 20], "a@1", 0.0)])
        bad_luck += 1
    assert bad_luck < 20
    after = route(policy, dict.fromkeys(families, (0.8, 0.65)), 600, seed=2)
    # In each of 60 simulated runs the first version got at least 300 of these 400 tasks.
    assert after[200:].count(0) >= 250, "P(chance) < 1e-2"


def test_without_a_change_nothing_is_forgotten() -> None:
    policy = HierarchicalThompson()
    route(policy, {"mail": (0.8, 0.6), "sheet": (0.7, 0.6)}, 1500, seed=3)
    counted = sum(cell.outcomes for cells in policy._families.values() for cell in cells.values())
    # One of 60 simulated runs had an alarm.
    assert counted == 1500, "P(chance) < .07"


def test_the_cumulative_sum_is_that_worked_by_hand() -> None:
    detector = ChangeDetector()
    assert detector.add(0.5, 0.0, threshold=12.0) is None
    # Shift −2: q = 1 / (1 + e²) = .1192; log(.8808 / .5) = .5663.
    assert detector.runs[SHIFTS.index(-2.0)].score == pytest.approx(0.56622, abs=1e-4)
    assert detector.runs[SHIFTS.index(2.0)].score == 0.0
    for _ in range(20):
        detector.add(0.5, 0.0, threshold=12.0)
    alarm = detector.add(0.5, 0.0, threshold=12.0)
    assert alarm is not None  # 22 · .5662 = 12.46
    assert (alarm.outcomes, alarm.reward) == (22, 0.0)


def test_lin_ucb_has_the_published_limits() -> None:
    policy = LinUCB(alpha=1.0)
    first, second = ([float(index == n) for index in range(SIZE)] for n in (0, 1))
    decision = replace(decision_of("d", "a@1", task_of(), policy), features=tuple(first))
    policy.learn(decision, RoutingOutcome("d", 1.0))
    assert policy.limits(first, ["a@1"])[0] == pytest.approx(0.5 + sqrt(0.5), abs=1e-6)
    assert policy.limits(second, ["a@1"])[0] == pytest.approx(1.0, abs=1e-6)


def test_ucb1_tries_every_version_then_takes_the_highest_limit() -> None:
    policy = UCB1(floor=0.02)
    teach(policy, [("mail", "a@1", 1.0)])
    assert policy.probabilities(task_of(), AB)[1] == pytest.approx(0.99)
    teach(policy, [("mail", "a@1", 1.0)] * 8 + [("mail", "b@1", 0.0)])
    # a: 1 + √(2 ln 10 / 9) = 1.715; b: 0 + √(2 ln 10) = 2.146
    assert sqrt(2 * log(10)) > 1 + sqrt(2 * log(10) / 9)
    assert policy.probabilities(task_of(), AB)[1] == pytest.approx(0.99)


def test_linear_thompson_learns_from_words_and_shares_them() -> None:
    policy = LinearThompson()
    for number in range(150):
        for word, good in (("sum the column", "a@1"), ("write a poem", "b@1")):
            task = task_of("mail", word)
            for version in ("a@1", "b@1"):
                decision = decision_of(f"{word}{version}{number}", version, task, policy)
                policy.learn(decision, RoutingOutcome(decision.id, float(version == good)))
    assert policy.probabilities(task_of("mail", "sum the column"), AB)[0] > 0.95
    assert policy.probabilities(task_of("mail", "write a poem"), AB)[0] < 0.05


def test_fixed_weights_are_scaled_to_the_eligible_agents() -> None:
    policy = FixedWeights({"a": 3.0, "b": 1.0, "gone": 4.0}, floor=0.02)
    assert list(policy.probabilities(task_of(), AB)) == pytest.approx([0.98 * 0.75 + 0.01, 0.98 * 0.25 + 0.01])


def test_the_cheapest_version_above_the_bar_is_taken() -> None:
    policy = CheapestAboveBar(0.8, floor=0.02)
    cheap_b = (replace(AB[0], handicap=0.5), AB[1])
    teach(policy, [("mail", "a@1", 1.0), ("mail", "b@1", 1.0)] * 30)
    assert policy.probabilities(task_of(), cheap_b)[1] == pytest.approx(0.99)
    teach(policy, [("mail", "b@1", 0.0)] * 30)
    assert policy.probabilities(task_of(), cheap_b)[0] == pytest.approx(0.99)


def test_features_are_stable_bounded_and_stored_with_the_decision() -> None:
    task = Task(id="t", instruction="Sum it", family="mail", environment="call", context={"tools": 3, "turns": -1})
    assert task_features(task) == task_features(replace(task, id="other"))
    assert len(task_features(task)) == SIZE
    assert task_features(task)[:8] == (1.0, 0.2, 0.194591, 0.462098, 0.0, 0.0, 0.0, 0.0)
    assert task_features(task)[32:] != task_features(replace(task, instruction="Write it"))[32:]
    registry = AgentRegistry()
    registry.add(AgentVersion("a", "1", "rule_based"))
    decision = Router(registry, LinearThompson(), RunKey("run")).decide(task)
    assert decision.features == task_features(task)
    assert Router(registry, UCB1(), RunKey("run")).decide(task).features == ()


@pytest.mark.parametrize("make", [LinearThompson, LogisticThompson, LinUCB])
def test_a_family_with_new_features_is_predicted_as_with_all_features(make: Callable[[], RegressionPolicy]) -> None:
    policy = make()
    teach(policy, [(f"f{number % 3}", AB[number % 2].version, float(number % 2)) for number in range(30)])
    features = np.array(task_features(task_of("never seen", "other words entirely")))
    prior = policy._prior() if make is not LinUCB else np.zeros(SIZE)
    means, variances = policy._predicted(features, ("a@1", "new@1"), prior)
    inverse = policy._versions["a@1"].inverse
    moment = policy._versions["a@1"].moment + policy.precision * prior
    assert means == pytest.approx([features @ inverse @ moment, features @ prior], abs=1e-5)
    assert variances == pytest.approx(
        [features @ inverse @ features, features @ features / policy.precision], rel=1e-5
    )
    assert set(np.flatnonzero(features)) - set(policy._known), "the task has features that no outcome has had"
