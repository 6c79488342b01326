"""Best-agent identification: bets by hand, errors at most alpha, and the unit of evidence."""

from math import exp, log

import numpy as np
import pytest

from upturn.arbiter import LoggedOutcome
from upturn.deployment.best_agent import (
    CAPITAL_SHARES,
    DIFFERENCES,
    BestAgentRule,
    BestAgentSearch,
    Evidence,
    Observations,
    identify_best,
    observe,
)
from upturn.deployment.best_agent_simulation import (
    Experiment,
    best_agent_results,
    median_with_limits,
    simulate_best_agent,
)
from upturn.records import Alternative, Decision


def one(chosen: int, shares: list[float], low: float, high: float) -> Observations:
    return Observations(np.array([chosen]), np.array(shares)[:, None], np.array([low]), np.array([high]))


def test_the_first_two_bets_by_hand() -> None:
    """Centre ½ and variance ¼ at first: the bet is δ/¼, at most .95/.25, and the score ±½ · (y − ½)."""
    evidence = observe(Evidence.start(2, 1), one(0, [0.5, 0.5], 1.0, 1.0), BestAgentRule())
    first = [1.0 + min(4 * size, 0.95 / 0.25) * 0.25 for size in DIFFERENCES]
    expected = sum(share * factor for share, factor in zip(CAPITAL_SHARES, first, strict=True))
    assert evidence.log_e()[0, 1, 0] == pytest.approx(log(expected))
    # Then agent 0 has the mean (1 + .5)/2 = .75 and mean square .75, agent 1 both ½. The centre is .625. The second
    # moments about it are .75 − 1.25 · .75 + .625² = .203125 and .5 − .625 + .390625 = .265625; their mean .234375.
    evidence = observe(evidence, one(1, [0.5, 0.5], 0.0, 0.0), BestAgentRule())
    bets = [min(size / 0.234375, 0.95 / 0.3125) for size in DIFFERENCES]
    second = [factor * (1.0 + bet * 0.5 * 0.625) for factor, bet in zip(first, bets, strict=True)]
    expected = sum(share * factor for share, factor in zip(CAPITAL_SHARES, second, strict=True))
    assert evidence.log_e()[0, 1, 0] == pytest.approx(log(expected))
    assert evidence.log_e()[1, 0, 0] < 0
    assert evidence.log_e()[0, 0, 0] == pytest.approx(0.0)


@pytest.mark.parametrize("margin", [0.0, 0.1])
@pytest.mark.parametrize("share", [0.5, 0.05, 0.9])
def test_the_expected_factor_is_at_most_1_at_the_null(share: float, margin: float) -> None:
    """Exactly, over all four cases of arm and outcome, after a random history, at a difference of −margin."""
    rule, rng = BestAgentRule(margin=margin), np.random.default_rng(1)
    evidence = Evidence.start(2, 1)
    for _ in range(30):
        outcome = float(rng.random() < 0.6)
        evidence = observe(evidence, one(int(rng.integers(2)), [share, 1 - share], outcome, outcome), rule)
    rates = (0.7 - margin, 0.7)
    expected = np.zeros(len(DIFFERENCES))
    for agent, chance in enumerate((share, 1 - share)):
        for outcome, probability in ((1.0, rates[agent]), (0.0, 1 - rates[agent])):
            after = observe(evidence, one(agent, [share, 1 - share], outcome, outcome), rule)
            growth = np.exp(after.log_capital - evidence.log_capital)[:, 0, 1, 0]
            assert (growth > 0).all(), "no bet loses everything"
            expected += chance * probability * growth
    assert expected == pytest.approx(np.ones(len(DIFFERENCES)))


def test_missing_outcomes_count_against_both_claims() -> None:
    rule, start = BestAgentRule(), Evidence.start(2, 1)
    missing = observe(start, one(0, [0.5, 0.5], 0.0, 1.0), rule)
    assert missing.log_e()[0, 1, 0] == observe(start, one(0, [0.5, 0.5], 0.0, 0.0), rule).log_e()[0, 1, 0]
    assert missing.log_e()[1, 0, 0] == observe(start, one(0, [0.5, 0.5], 1.0, 1.0), rule).log_e()[1, 0, 0]
    assert missing.counts.sum() == 0


def test_an_agent_that_could_not_be_chosen_learns_nothing() -> None:
    evidence = observe(Evidence.start(3, 1), one(0, [0.6, 0.4, 0.0], 1.0, 1.0), BestAgentRule())
    against = evidence.log_e()[..., 0]
    assert against[0, 1] > 0 > against[1, 0]
    assert [against[0, 2], against[2, 0], against[1, 2], against[2, 1]] == pytest.approx([0.0] * 4)


def test_arrays_and_the_search_agree_and_the_identification_stays() -> None:
    rng = np.random.default_rng(2)
    search, evidence = BestAgentSearch(("a", "b", "c")), Evidence.start(3, 1)
    found = None
    for count in range(1, 3001):
        share = np.array([0.2, 0.5, 0.3])
        agent = int(rng.choice(3, p=share))
        outcome = float(rng.random() < (0.8, 0.6, 0.5)[agent])
        search.observe("abc"[agent], dict(zip("abc", share, strict=True)), outcome, outcome)
        if found is None:
            evidence = observe(evidence, one(agent, share.tolist(), outcome, outcome), BestAgentRule())
            if evidence.best(BestAgentRule())[0] >= 0:
                found = count
    state = search.state()
    assert (state.best, state.observations) == ("a", found), "power 1 at these differences, P(error) <= .05"
    assert state.threshold == pytest.approx(2 / 0.05)
    assert state.e_values["a"] == pytest.approx(exp(np.delete(evidence.log_e()[0, :, 0], 0).min()))
    assert "a is shown to be the best after" in state.reason


def test_identical_agents_are_rarely_told_apart() -> None:
    """At most 2 · 5 % of the runs: 300 runs exceed 47 with a chance of 1e-3 at the very edge."""
    stops = simulate_best_agent((0.8, 0.8), BestAgentRule(), runs=300, seed=3, max_tasks=1_000)
    assert stops.is_decided.sum() <= 47
    assert (stops.tasks[~stops.is_decided] == 1_001).all()


def test_a_margin_lets_equal_agents_end() -> None:
    stops = simulate_best_agent((0.8, 0.8), BestAgentRule(margin=0.1), runs=100, seed=4, max_tasks=2_000)
    assert stops.is_decided.all(), "median 510, 95 % within 1,100"


def test_the_better_of_two_agents_is_identified_soon() -> None:
    stops = simulate_best_agent((0.6, 0.5), BestAgentRule(), runs=200, seed=5)
    assert (stops.best == 1).sum() <= 19, "each run errs with at most 5 %: above 19 of 200 with P < 2e-3"
    assert np.median(stops.tasks) == pytest.approx(653, abs=120), "four standard errors of the median"


@pytest.mark.slow
def test_85_against_80_takes_less_than_four_fifths_of_the_reference() -> None:
    """2,000 runs: TensorZero's rule takes 1,760 tasks (STATISTICS.md)."""
    stops = simulate_best_agent((0.85, 0.80), BestAgentRule(), runs=2_000, seed=0)
    median, _, high = median_with_limits(stops.tasks)
    assert high < 0.8 * 1_760
    assert median == pytest.approx(1_308.5)
    assert (stops.best == 1).mean() <= 0.05


def test_results_have_bars_and_limits() -> None:
    experiments = (Experiment((0.9, 0.5), 100.0), Experiment((0.5, 0.5)))
    results = {
        result.name: result
        for result in best_agent_results(BestAgentRule(), runs=20, seed=0, experiments=experiments[:1])
    }
    assert results["best_of_0.90_0.50_wrong"].bar == "<= 0.05"
    median = results["best_of_0.90_0.50_median_tasks"]
    assert median.holds is True
    assert (median.low or 0) <= float(median.value) <= (median.high or 0)


def test_the_limits_of_a_median_are_order_statistics() -> None:
    """n = 20: the 6th and the 15th of the ordered values have 95.9 % (tables of the sign test)."""
    assert median_with_limits(np.arange(1, 21)) == (10.5, 6.0, 15.0)


def decision(name: str, chosen: str, episode: str | None = None) -> Decision:
    return Decision(
        id=name,
        task_id=name,
        family="mail",
        tenant="default",
        policy="uniform",
        policy_snapshot="",
        alternatives=(Alternative("a@1", 0.3, None), Alternative("a@2", 0.2, None), Alternative("b@1", 0.5, None)),
        agent=chosen.partition("@")[0],
        chosen=chosen,
        propensity=0.5,
        reason="",
        episode=episode,
    )


def test_an_episode_is_one_observation_with_its_mean() -> None:
    log_ = [
        LoggedOutcome(decision("1", "a@2", "e"), 1.0),
        LoggedOutcome(decision("2", "b@1"), 0.0),
        LoggedOutcome(decision("3", "a@2", "e"), None),
        LoggedOutcome(decision("4", "a@2", "e"), 0.0),
    ]
    search = BestAgentSearch(("a", "b"))
    search.observe("a", {"a": 0.5, "b": 0.5}, 1 / 3, 2 / 3)
    search.observe("b", {"a": 0.5, "b": 0.5}, 0.0, 0.0)
    state = identify_best(log_, ("a", "b"))
    assert state == search.state()
    assert (state.observations, state.best, state.means) == (2, None, {"a": None, "b": 0.0})
    assert "no agent is shown to be the best after 2 observations" in state.reason


def test_unusable_input_is_refused() -> None:
    with pytest.raises(ValueError, match="two or more different agents"):
        BestAgentSearch(("a", "a"))
    search = BestAgentSearch(("a", "b"))
    for low, high, shares in ((0.5, 0.4, {"a": 1.0}), (0.0, 1.5, {"a": 1.0}), (0.0, 0.0, {"b": 1.0})):
        with pytest.raises(ValueError, match="0 <= low <= high <= 1"):
            search.observe("a", shares, low, high)
    search.observe("other", {"other": 1.0}, 1.0, 1.0)
    assert search.state().observations == 0, "an agent outside of the experiment changes nothing"
    for settings in ({"alpha": 0.0}, {"alpha": 1.0}, {"margin": -0.1}, {"margin": 1.0}):
        with pytest.raises(ValueError, match="must be"):
            BestAgentRule(**settings)
