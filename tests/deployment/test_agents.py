"""The registry of agents in a pool: limits, profiles, validation and deployment."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from upturn.config import CanarySettings, ValidationSettings
from upturn.deployment import (
    CapabilityUpdate,
    Override,
    capability_profiles,
    deploy_improved_agent,
    promote,
    update_agent_capabilities,
    validate_agent_performance,
)
from upturn.errors import ReleaseError, UnknownNameError
from upturn.pool import Pool, PoolRecord
from upturn.records import (
    AgentLimits,
    AgentVersion,
    Alternative,
    Decision,
    Evaluation,
    EvaluationVerdict,
    Observation,
    Release,
    Task,
    Trajectory,
)

ANA = Override("ana", "tested")
OLD, NEW = "clerk@1", "clerk@2"


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[Pool]:
    with Pool.open(tmp_path / "pool.db") as opened:
        opened.append(*(AgentVersion("clerk", version, "callable") for version in "12"))
        yield opened


def done(number: int, version: str, is_success: bool, *, split: str = "heldout") -> tuple[PoolRecord, ...]:
    task = Task(f"{split}-{number}", "do", "mail", "office", split=split)  # type: ignore[arg-type]
    trajectory = Trajectory(
        f"{version}-{task.id}", task.id, version, (), Observation(""), "finished", "rendered", attempt=0
    )
    verdict: EvaluationVerdict = "success" if is_success else "failure"
    name = f"judged-{trajectory.id}"
    evaluation = Evaluation(name, task.id, trajectory.id, "judge/1", verdict, (), {}, {}, None)
    return task, trajectory, evaluation


def decided(number: int, version: str) -> Decision:
    options = (Alternative(OLD, 0.5, None), Alternative(NEW, 0.5, None))
    task = f"train-{number}"
    return Decision(f"d{number}", task, "mail", "default", "p", "0", options, "clerk", version, 0.5, "because")


def test_updates_add_up_and_are_all_kept(pool: Pool) -> None:
    update_agent_capabilities(pool, CapabilityUpdate("clerk", capabilities=("office",)), ANA)
    limits = update_agent_capabilities(
        pool, CapabilityUpdate("clerk", is_suspended=True), Override("ben", "broken")
    )
    assert limits == AgentLimits("clerk", "updated by ben: broken", capabilities=("office",), is_suspended=True)
    reasons = [state.reason for state in pool.states(AgentLimits, "clerk")]
    assert reasons == ["updated by ana: tested", "updated by ben: broken"]


@pytest.mark.parametrize(
    ("update", "message"),
    [
        (CapabilityUpdate("clerk"), "names at least one of environments"),
        (CapabilityUpdate("clerk", max_concurrent=0), "max_concurrent must be at least 1, got 0"),
    ],
)
def test_useless_updates_are_refused(pool: Pool, update: CapabilityUpdate, message: str) -> None:
    with pytest.raises(ReleaseError, match=message):
        update_agent_capabilities(pool, update, ANA)
    with pytest.raises(UnknownNameError, match="unknown agent 'clark'; in this pool: clerk"):
        update_agent_capabilities(pool, CapabilityUpdate("clark", is_suspended=True), ANA)
    with pytest.raises(ReleaseError, match="needs who did it and why"):
        update_agent_capabilities(pool, CapabilityUpdate("clerk", is_suspended=True), Override("ana", " "))
    assert pool.states(AgentLimits) == []


def test_stored_evidence_validates_and_deploys_a_version(pool: Pool) -> None:
    for number in range(40):
        pool.append(*done(number, OLD, number < 8))
        if number < 36:
            pool.append(*done(number, NEW, number < 30))
    pool.append(*done(0, NEW, False, split="train"))
    verdict = validate_agent_performance(pool, OLD, NEW, ValidationSettings(), tenant="default")
    assert (verdict.verdict, verdict.n) == ("pass", 36)  # the tasks of both
    assert verdict.gain == pytest.approx(30 / 36 - 8 / 36)
    assert validate_agent_performance(pool, NEW, OLD, ValidationSettings(), tenant="default").verdict == "fail"
    assert validate_agent_performance(pool, OLD, NEW, ValidationSettings(), tenant="other").verdict == "hold"
    release = deploy_improved_agent(pool, OLD, NEW, verdict, CanarySettings())
    assert pool.states(Release) == [release]
    with pytest.raises(ReleaseError, match="already has release"):
        deploy_improved_agent(pool, OLD, NEW, verdict, CanarySettings())


def test_a_release_over_a_version_that_was_replaced_is_refused(pool: Pool) -> None:
    release = deploy_improved_agent(pool, OLD, NEW, ANA, CanarySettings())
    pool.append(promote(release, ANA))
    pool.append(AgentVersion("clerk", "3", "callable"))
    with pytest.raises(ReleaseError, match="clerk@1 serves no more: clerk@2 was promoted over it"):
        deploy_improved_agent(pool, OLD, "clerk@3", ANA, CanarySettings())
    assert deploy_improved_agent(pool, NEW, "clerk@3", ANA, CanarySettings()).attempt == 1


def test_profiles_count_routed_outcomes_only(pool: Pool) -> None:
    for number in range(10):
        pool.append(decided(number, NEW), *done(number, NEW, number < 7, split="train"))
    pool.append(*done(50, NEW, True))
    (profile,) = capability_profiles(pool, tenant="default")
    assert (profile.version, profile.family, profile.outcomes, profile.successes) == (NEW, "mail", 10, 7.0)
    assert profile.mean == pytest.approx(8 / 12)  # Beta(1, 1) and 7 of 10
    assert (profile.low, profile.high) == pytest.approx((0.390, 0.891), abs=1e-3)  # quantiles of Beta(8, 4)
    assert list(capability_profiles(pool, tenant="default", agents=("other",))) == []
