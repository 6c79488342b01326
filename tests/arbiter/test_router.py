"""Decisions: propensities, canary arm_by_task, reasons, episodes."""

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from upturn.arbiter.policy import (
    Candidate,
    DiscountedThompson,
    EpsilonGreedy,
    RoutingOutcome,
    RoutingPolicy,
    RuleBasedRouting,
    Uniform,
)
from upturn.arbiter.registry import AgentRegistry
from upturn.arbiter.router import Router, RunKey, draw
from upturn.arbiter.tally import Tally
from upturn.errors import RoutingError
from upturn.records import AgentVersion, Decision, Task, from_json, to_json

MakeTask = Callable[..., Task]
MakeVersion = Callable[..., AgentVersion]

SIGMAS = 4.9
"""Number of standard errors that are exceeded by chance with P < 1e-6."""


@pytest.fixture
def registry(make_version: MakeVersion) -> AgentRegistry:
    registry = AgentRegistry()
    for agent in ("nano", "rules", "hot"):
        registry.add(make_version(agent))
    return registry


def tally_with_outcomes() -> Tally:
    """Returns outcomes in mail where nano is better than rules, and hot always fails."""
    tally = Tally(discount=1, borrow=0)
    for version, successes, failures in (("nano@1", 6, 4), ("rules@1", 4, 6), ("hot@1", 0, 4)):
        for reward in [1.0] * successes + [0.0] * failures:
            tally.add("mail", version, reward)
    return tally


def is_near(count: int, n: int, probability: float) -> bool:
    error = math.sqrt(probability * (1 - probability) / n)
    return abs(count / n - probability) < SIGMAS * error


@pytest.mark.parametrize(
    "policy", [DiscountedThompson(tally=tally_with_outcomes()), Uniform(), RuleBasedRouting({}, "hot")]
)
def test_propensity_is_the_frequency_of_the_choice(
    policy: RoutingPolicy, registry: AgentRegistry, make_task: MakeTask, make_version: MakeVersion
) -> None:
    registry.start_canary("r1", make_version("nano", "2"), 0.3)
    router = Router(registry, policy, RunKey("run"))
    n = 4000
    decisions = router.decide_many(make_task(f"t{index}") for index in range(n))
    propensities = {decision.chosen: decision.propensity for decision in decisions}
    assert sum(option.probability for option in decisions[0].alternatives) == pytest.approx(1, abs=1e-12)
    for version, count in Counter(decision.chosen for decision in decisions).items():
        assert is_near(count, n, propensities[version]), f"{version}: P(chance) < 1e-6"
    assert set(propensities) == {"nano@1", "nano@2", "rules@1", "hot@1"}


def test_propensity_of_a_version_is_agent_times_share(
    registry: AgentRegistry, make_task: MakeTask, make_version: MakeVersion
) -> None:
    registry.start_canary("r1", make_version("nano", "2"), 0.25)
    router = Router(registry, RuleBasedRouting({}, "nano", floor=0.03), RunKey("run"))
    for decision in router.decide_many(make_task(f"t{index}") for index in range(60)):
        shares = {option.agent_version: option.probability for option in decision.alternatives}
        assert shares["nano@1"] == pytest.approx(0.98 * 0.75)
        assert shares["nano@2"] == pytest.approx(0.98 * 0.25)
        assert decision.propensity == shares[decision.chosen]
        if decision.chosen.startswith("nano"):
            assert decision.release == "r1"
            assert decision.arm == ("candidate" if decision.chosen == "nano@2" else "control")
        else:
            assert (decision.release, decision.arm) == (None, None)


def test_agents_are_represented_by_their_incumbent_during_a_canary(
    registry: AgentRegistry, make_task: MakeTask, make_version: MakeVersion
) -> None:
    tally = tally_with_outcomes()
    before = Router(registry, DiscountedThompson(tally=tally), RunKey("run")).decide(make_task())
    registry.start_canary("r1", make_version("nano", "2"), 0.5)
    for _ in range(50):
        tally.add("mail", "nano@2", 0.0)
    during = Router(registry, DiscountedThompson(tally=tally), RunKey("run")).decide(make_task())
    agent_before = {option.agent_version: option.probability for option in before.alternatives}
    agent_during = {option.agent_version: option.probability for option in during.alternatives}
    assert agent_during["nano@1"] + agent_during["nano@2"] == pytest.approx(agent_before["nano@1"])
    estimates = {option.agent_version: option.estimate for option in during.alternatives}
    assert estimates["nano@2"] == pytest.approx(1 / 52)
    registry.promote("nano")
    after = Router(registry, DiscountedThompson(tally=tally), RunKey("run")).decide(make_task())
    assert next(option.probability for option in after.alternatives if option.agent_version == "nano@2") < 0.03


def test_arm_is_independent_of_family_and_history(
    registry: AgentRegistry, make_task: MakeTask, make_version: MakeVersion
) -> None:
    registry.start_canary("r1", make_version("nano", "2"), 0.4)
    arms: dict[str, Counter[str | None]] = {"mail": Counter(), "sheet": Counter()}
    tally = tally_with_outcomes()
    router = Router(registry, DiscountedThompson(tally=tally), RunKey("run"))
    arm_by_task: dict[str, str] = {}
    for index in range(3000):
        family = ("mail", "sheet")[index % 2]
        decision = router.decide(make_task(f"t{index}", family=family))
        if decision.arm is not None:
            arms[family][decision.arm] += 1
            arm_by_task[decision.task_id] = decision.arm
        if index % 100 == 0:
            tally.add(family, "nano@1", 1.0)
    for family, counts in arms.items():
        assert is_near(counts["candidate"], counts.total(), 0.4), f"{family}: P(chance) < 1e-6"
    # The same task has the same arm with another family and history.
    other = Router(registry, EpsilonGreedy(), RunKey("another run"))
    for task_id, expected in arm_by_task.items():
        arm = other.decide(make_task(task_id, family="chat")).arm
        assert arm is None or arm == expected


def test_decisions_do_not_depend_on_the_order_of_tasks(registry: AgentRegistry, make_task: MakeTask) -> None:
    tasks = [make_task(f"t{index}") for index in range(40)]
    forwards = Router(registry, Uniform(), RunKey("run", 3)).decide_many(tasks)
    backwards = Router(registry, Uniform(), RunKey("run", 3)).decide_many(tasks[::-1])
    assert forwards == backwards[::-1]
    other_seed = Router(registry, Uniform(), RunKey("run", 4)).decide_many(tasks)
    assert [decision.chosen for decision in other_seed] != [decision.chosen for decision in forwards]
    assert [decision.id for decision in other_seed] == [decision.id for decision in forwards]


def test_ids_are_unique_per_run_and_task(registry: AgentRegistry, make_task: MakeTask) -> None:
    one, two = (Router(registry, Uniform(), RunKey(run)) for run in ("one", "two"))
    decisions = [router.decide(make_task(name)) for router in (one, two) for name in ("a", "b")]
    assert len({decision.id for decision in decisions}) == 4
    assert decisions[0].chosen == decisions[2].chosen


@settings(max_examples=50, deadline=None)  # a slow machine must not fail it
@given(st.integers(), st.text(), st.sampled_from(["agent", "version"]))
def test_draws_are_reproducible_and_in_the_unit_interval(seed: int, task: str, purpose: str) -> None:
    number = draw(seed, task, purpose)  # type: ignore[arg-type]
    assert 0 <= number < 1
    assert number == draw(seed, task, purpose)  # type: ignore[arg-type]


def test_learning_a_wave_is_learning_its_outcomes_in_order(registry: AgentRegistry, make_task: MakeTask) -> None:
    policy, twin = DiscountedThompson(), DiscountedThompson()
    router = Router(registry, policy, RunKey("run"))
    decisions = router.decide_many(make_task(f"t{index}") for index in range(12))
    assert len({decision.policy_snapshot for decision in decisions}) == 1
    outcomes = [RoutingOutcome(decision.id, float(index % 3 == 0)) for index, decision in enumerate(decisions)]
    router.learn_many(decisions, outcomes)
    for decision, outcome in zip(decisions, outcomes, strict=True):
        twin.learn(decision, outcome)
    assert policy.state() == twin.state()
    assert router.decide(make_task("next")).policy_snapshot == policy.snapshot() != decisions[0].policy_snapshot
    with pytest.raises(ValueError, match="zip"):
        router.learn_many(decisions, outcomes[:-1])


def test_excluded_versions_are_logged_with_their_reason(
    registry: AgentRegistry, make_task: MakeTask, make_version: MakeVersion
) -> None:
    registry.add(make_version("bound", tenants=("acme",)))
    registry.add(make_version("busy"), max_concurrent=1)
    registry.start_canary("r1", make_version("nano", "2"), 1.0)
    router = Router(registry, Uniform(), RunKey("run"))
    router.load.acquire("busy")
    decision = router.decide(make_task())
    excluded = {option.agent_version: option.excluded_by for option in decision.alternatives if option.excluded_by}
    assert excluded == {
        "bound@1": "may not serve tenant 'default'",
        "busy@1": "load cap reached: 1 of 1 tasks in flight",
        "nano@1": "release r1: nano@2 takes all of the agent's tasks",
    }
    assert all(
        option.probability == 0 and option.estimate is None
        for option in decision.alternatives
        if option.excluded_by
    )
    assert from_json(Decision, to_json(decision)) == decision


def test_no_eligible_agent_is_an_error_with_all_reasons(make_task: MakeTask, make_version: MakeVersion) -> None:
    registry = AgentRegistry()
    router = Router(registry, Uniform(), RunKey("run"))
    with pytest.raises(RoutingError, match="no agent is in service"):
        router.decide(make_task())
    registry.add(make_version("bound", tenants=("acme",)))
    registry.add(make_version("coder", capabilities=("repair",)))
    with pytest.raises(RoutingError, match="bound@1: may not serve tenant 'default'; coder@1: cannot act in"):
        router.decide(make_task())


def decision_for(router: Router, tasks: Sequence[Task], version: str) -> Decision:
    return next(decision for decision in router.decide_many(tasks) if decision.chosen == version)


def test_reasons_name_the_deciding_figures(
    registry: AgentRegistry, make_task: MakeTask, make_version: MakeVersion
) -> None:
    tasks = [make_task(f"t{index}") for index in range(400)]
    router = Router(registry, DiscountedThompson(tally=tally_with_outcomes()), RunKey("run"))
    best = decision_for(router, tasks, "nano@1")
    assert best.reason == (
        f"discounted_thompson leads mail to nano 0.58±0.27 with probability {best.propensity:.3f}, "
        "before rules 0.42±0.27"
    )
    explored = decision_for(router, tasks, "hot@1")
    assert explored.reason == (
        f"discounted_thompson explores hot 0.17±0.28 for mail with probability {explored.propensity:.3f}; "
        "it prefers nano 0.58±0.27"
    )
    uniform = Router(registry, Uniform(), RunKey("run")).decide(tasks[0])
    assert uniform.reason.startswith("uniform gives all 3 agents equal chances for mail; drew ")
    registry.start_canary("r1", make_version("nano", "2"), 0.1)
    assert decision_for(router, tasks, "nano@1").reason.endswith(
        "; canary r1: the coin at 10% for nano@2 gave nano@1"
    )
    for agent in ("rules", "hot"):
        registry.remove(agent)
    assert router.decide(tasks[0]).reason.startswith(
        "nano 0.58±0.27 is the only eligible agent for mail; canary r1"
    )


def test_episode_keeps_its_first_decision(registry: AgentRegistry, make_task: MakeTask) -> None:
    router = Router(registry, Uniform(), RunKey("run"))
    first = router.decide(make_task("t0"), episode="e")
    assert not first.is_sticky
    for index in range(1, 20):
        later = router.decide(make_task(f"t{index}", family="sheet"), episode="e")
        assert later.is_sticky
        assert (later.chosen, later.propensity, later.alternatives) == (
            first.chosen,
            first.propensity,
            first.alternatives,
        )
        assert (later.task_id, later.family, later.episode) == (f"t{index}", "sheet", "e")
        assert later.id != first.id


def test_episodes_of_two_tenants_are_separate(registry: AgentRegistry, make_task: MakeTask) -> None:
    router = Router(registry, Uniform(), RunKey("run"))
    router.decide(make_task("t0", tenant="acme"), episode="e")
    assert not router.decide(make_task("t1", tenant="other"), episode="e").is_sticky


def test_episode_survives_the_load_cap_but_not_a_rollback(make_task: MakeTask, make_version: MakeVersion) -> None:
    registry = AgentRegistry()
    registry.add(make_version("nano"), max_concurrent=1)
    registry.start_canary("r1", make_version("nano", "2"), 1.0)
    router = Router(registry, Uniform(), RunKey("run"))
    assert router.decide(make_task("t0"), episode="e").chosen == "nano@2"
    router.load.acquire("nano")
    assert router.decide(make_task("t1"), episode="e").is_sticky
    router.load.release("nano")
    registry.rollback("nano")
    renewed = router.decide(make_task("t2"), episode="e")
    assert (renewed.chosen, renewed.is_sticky) == ("nano@1", False)
    assert router.decide(make_task("t3"), episode="e").is_sticky


def test_an_episode_leaves_its_release_with_a_task_that_one_version_may_not_do(
    make_task: MakeTask, make_version: MakeVersion
) -> None:
    """Later tasks count in neither arm: the candidate's would be served by the incumbent."""
    registry = AgentRegistry()
    registry.add(make_version("nano"))
    registry.start_canary("r1", replace(make_version("nano", "2"), capabilities=("office",)), 0.5)
    router = Router(registry, Uniform(), RunKey("run"))
    for number in range(20):
        office, other = make_task(f"o{number}"), replace(make_task(f"x{number}"), environment="research")
        first, middle, last = (
            router.decide(task, episode=f"e{number}")
            for task in (replace(office, environment="office"), other, replace(office, id=f"p{number}"))
        )
        assert first.release == "r1"
        assert (middle.release, middle.arm, middle.chosen) == (None, None, "nano@1")
        assert (last.release, last.arm) == (None, None)


def test_an_episode_leaves_a_release_that_has_ended(make_task: MakeTask, make_version: MakeVersion) -> None:
    registry = AgentRegistry()
    registry.add(make_version("nano"))
    registry.start_canary("r1", make_version("nano", "2"), 1.0)
    router = Router(registry, Uniform(), RunKey("run"))
    assert router.decide(make_task("t0"), episode="e").release == "r1"
    registry.promote("nano")
    later = router.decide(make_task("t1"), episode="e")
    assert (later.chosen, later.is_sticky, later.release, later.arm) == ("nano@2", True, None, None)


def test_episodes_are_remembered_within_bounds(registry: AgentRegistry, make_task: MakeTask) -> None:
    router = Router(registry, Uniform(), RunKey("run"), max_episodes=2)
    first = router.decide(make_task("t0"), episode="a")
    router.decide(make_task("t1"), episode="b")
    assert router.decide(make_task("t2"), episode="a").is_sticky
    router.decide(make_task("t3"), episode="c")
    assert not router.decide(make_task("t4"), episode="b").is_sticky  # the least recently used
    restarted = Router(registry, Uniform(), RunKey("run"))
    restarted.remember(first)
    assert restarted.decide(make_task("t5"), episode="a").is_sticky


class GreedyPolicy(Uniform):
    def probabilities(self, task: Task, candidates: Sequence[Candidate]) -> Sequence[float]:
        return [1.0] + [0.0] * (len(candidates) - 1)


def test_policy_that_violates_its_contract_is_rejected(registry: AgentRegistry, make_task: MakeTask) -> None:
    with pytest.raises(RoutingError, match=r"\[1\.0, 0\.0, 0\.0\] for 3 agents"):
        Router(registry, GreedyPolicy(), RunKey("run")).decide(make_task())


def test_example_of_the_routing_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "routing.md").read_text(encoding="utf-8")
    example = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)[0]
    exec(example, {})
    assert "discounted_thompson gives all 2 agents equal chances for mail_reply" in capsys.readouterr().out
