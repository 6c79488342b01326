"""Traffic reserved for the agent under canary."""

from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from upturn.arbiter import Candidate, DiscountedThompson, RoutingOutcome
from upturn.loop.canary_traffic import CANARY_SHARE, ReservedTraffic
from upturn.loop.cycle import release, serve
from upturn.records import AgentVersion


def test_agent_that_routing_avoids_still_gets_a_canary_verdict(desk: ModuleType, tmp_path: Path) -> None:
    better = AgentVersion("refuser", "better", "callable", model="toy_desk:adder")
    with desk.opened(tmp_path / "run", desk.config(("solver", "refuser"))) as context:
        serve(context, "serve", 96)  # routing learns to avoid the refuser
        incumbent = context.router.registry.served("refuser").incumbent
        released = release(context, "release", (incumbent, better), desk.GROUND)
        assert released.state == "promoted"
        decisions = [
            decision for decision in context.pool.decisions(tenant="default") if decision.release == released.id
        ]
        assert min(decision.propensity for decision in decisions if decision.arm == "control") >= CANARY_SHARE * 0.5
        assert context.router.policy is context.policy
        assert len(list(context.pool.decisions(tenant="default"))) < 3000


def test_a_candidate_whose_failures_break_the_verifier_is_rolled_back(desk: ModuleType, tmp_path: Path) -> None:
    """Both solve sums only; what is judged of the candidate is perfect."""
    mumbler = AgentVersion("adder", "mumbler", "callable", model="toy_desk:mumbler")
    settings = desk.with_canary(desk.config(("adder",), environment={"name": "toy_desk:fragile_kit"}))
    with desk.opened(tmp_path / "run", settings) as context:
        incumbent = context.router.registry.served("adder").incumbent
        released = release(context, "release", (incumbent, mumbler), desk.GROUND)
        last = released.evidence[-1]
        assert released.state == "rolled_back"
        assert "lose more outcomes than the incumbent" in last.reason
        assert last.candidate_successes == last.candidate_tasks
        assert last.candidate_missing > 0
        assert context.router.registry.served("adder").incumbent == incumbent


def test_a_promoted_candidate_is_watched_to_the_end(desk: ModuleType, tmp_path: Path) -> None:
    settings = desk.with_canary(desk.config(("adder",)), stages=(0.5, 1.0), watch_tasks=60)
    with desk.opened(tmp_path / "run", settings) as context:
        incumbent = context.router.registry.served("adder").incumbent
        released = release(context, "release", (incumbent, desk.CANDIDATE), desk.GROUND)
        assert released.state == "promoted"
        assert "the watch ended after" in released.evidence[-1].reason


def test_reserved_traffic_raises_one_agent_and_scales_the_others(desk: ModuleType, tmp_path: Path) -> None:
    inner = DiscountedThompson(floor=0.05)
    with desk.opened(tmp_path / "run") as context:
        (task,) = context.next_tasks(1)
        decision = context.router.decide(task)
    for _ in range(40):
        inner.learn(replace(decision, chosen="a@1"), RoutingOutcome(decision.id, 1.0))
        inner.learn(replace(decision, chosen="b@1"), RoutingOutcome(decision.id, 0.0))
    candidates = [Candidate("a", "a@1"), Candidate("b", "b@1"), Candidate("c", "c@1")]
    plain = inner.probabilities(task, candidates)
    assert plain[1] < 0.25
    raised = ReservedTraffic(inner, "b", 0.25).probabilities(task, candidates)
    assert raised[1] == 0.25
    assert sum(raised) == pytest.approx(1.0)
    assert raised[0] / raised[2] == pytest.approx(plain[0] / plain[2])
    assert (
        ReservedTraffic(inner, "a", 0.25).probabilities(task, candidates) == plain
    )  # it has a larger share already
    assert ReservedTraffic(inner, "unknown", 0.25).probabilities(task, candidates) == plain
    assert ReservedTraffic(inner, "b").snapshot() != inner.snapshot()
    assert ReservedTraffic(inner, "b").belief(task.family, "a@1") == inner.belief(task.family, "a@1")
