"""Agents in service: releases, screening with reasons, load."""

from collections.abc import Callable

import pytest

from upturn.arbiter.registry import AgentRegistry, Exclusion, Load, Offer
from upturn.errors import RecordError, ReleaseError, UnknownNameError
from upturn.records import AgentVersion, Task

MakeTask = Callable[..., Task]
MakeVersion = Callable[..., AgentVersion]


@pytest.fixture
def registry(make_version: MakeVersion) -> AgentRegistry:
    registry = AgentRegistry()
    registry.add(make_version("nano"), max_concurrent=2)
    registry.add(make_version("bound", tenants=("acme",), capabilities=("office",)))
    return registry


def test_screening_has_each_version_once_with_its_reason(registry: AgentRegistry, make_task: MakeTask) -> None:
    screening = registry.screen(make_task(), Load())
    assert screening.offers == (Offer("nano", "nano@1"),)
    assert screening.exclusions == (Exclusion("bound@1", "may not serve tenant 'default'"),)
    screening = registry.screen(make_task(tenant="acme", environment="repair"), Load())
    assert screening.exclusions == (Exclusion("bound@1", "cannot act in environment 'repair'"),)
    screening = registry.screen(make_task(tenant="acme"), Load())
    assert [offer.agent for offer in screening.offers] == ["bound", "nano"]
    assert screening.exclusions == ()


def test_load_cap_excludes_an_agent_until_a_task_is_released(registry: AgentRegistry, make_task: MakeTask) -> None:
    load = Load()
    load.acquire("nano")
    assert registry.screen(make_task(), load).offers == (Offer("nano", "nano@1"),)
    load.acquire("nano")
    screening = registry.screen(make_task(), load)
    assert screening.offers == ()
    assert Exclusion("nano@1", "load cap reached: 2 of 2 tasks in flight") in screening.exclusions
    load.release("nano")
    assert load.in_flight("nano") == 1
    assert registry.screen(make_task(), load).offers == (Offer("nano", "nano@1"),)


def test_load_never_goes_below_zero() -> None:
    load = Load()
    with pytest.raises(ValueError, match="never acquired"):
        load.release("nano")
    assert load.in_flight("nano") == 0


def test_incumbent_serves_a_tenant_that_the_candidate_may_not_serve(
    registry: AgentRegistry, make_task: MakeTask, make_version: MakeVersion
) -> None:
    registry.start_canary("r1", make_version("nano", "2", tenants=("acme",)), 0.1)
    assert Offer("nano", "nano@1", "nano@2", 0.1, "r1") in registry.screen(make_task(tenant="acme"), Load()).offers
    screening = registry.screen(make_task(), Load())
    assert screening.offers == (Offer("nano", "nano@1"),)
    assert Exclusion("nano@2", "may not serve tenant 'default'") in screening.exclusions


def test_candidate_is_excluded_with_its_incumbent(
    registry: AgentRegistry, make_task: MakeTask, make_version: MakeVersion
) -> None:
    registry.start_canary("r1", make_version("bound", "2"), 0.1)
    reasons = {exclusion.version: exclusion.reason for exclusion in registry.screen(make_task(), Load()).exclusions}
    assert reasons["bound@2"] == "its incumbent may not serve: may not serve tenant 'default'"


def test_release_goes_from_canary_to_promotion(registry: AgentRegistry, make_version: MakeVersion) -> None:
    registry.start_canary("r1", make_version("nano", "2"), 0.1)
    registry.set_weight("nano", 0.5)
    assert registry.served("nano").weight == 0.5
    registry.promote("nano")
    served = registry.served("nano")
    assert (served.incumbent.id, served.candidate, served.weight, served.release) == ("nano@2", None, 0.0, None)
    assert served.max_concurrent == 2
    registry.start_canary("r2", make_version("nano", "3"), 1.0)
    registry.rollback("nano")
    assert registry.served("nano") == served
    registry.remove("nano")
    assert list(registry.agents()) == ["bound"]


def test_invalid_registry_changes_are_rejected(registry: AgentRegistry, make_version: MakeVersion) -> None:
    with pytest.raises(ReleaseError, match="already served"):
        registry.add(make_version("nano", "2"))
    with pytest.raises(ReleaseError, match="no version under canary"):
        registry.promote("nano")
    with pytest.raises(ReleaseError, match="no version under canary"):
        registry.rollback("nano")
    with pytest.raises(ReleaseError, match="no version under canary"):
        registry.set_weight("nano", 0.5)
    with pytest.raises(ReleaseError, match="is the incumbent"):
        registry.start_canary("r1", make_version("nano", "1"), 0.1)
    for weight in (0.0, 1.1, float("nan")):
        with pytest.raises(ReleaseError, match="weight"):
            registry.start_canary("r1", make_version("nano", "2"), weight)
    registry.start_canary("r1", make_version("nano", "2"), 0.1)
    with pytest.raises(ReleaseError, match="already has candidate 'nano@2'"):
        registry.start_canary("r2", make_version("nano", "3"), 0.1)
    with pytest.raises(UnknownNameError, match="in service: bound, nano"):
        registry.served("nona")
    with pytest.raises(ValueError, match="max_concurrent"):
        registry.add(make_version("new"), max_concurrent=0)


def test_state_round_trips(registry: AgentRegistry, make_version: MakeVersion) -> None:
    registry.start_canary("r1", make_version("nano", "2"), 0.1)
    other = AgentRegistry()
    other.restore(registry.state())
    assert other.agents() == registry.agents()
    with pytest.raises(RecordError, match="agents"):
        other.restore("{}")


def test_every_change_of_the_agents_shows_in_the_next_screening(
    registry: AgentRegistry, make_task: MakeTask, make_version: MakeVersion
) -> None:
    def screened(**fields: str) -> list[Offer]:
        return list(registry.screen(make_task(**fields), Load()).offers)

    before = registry.state()
    assert screened() == [Offer("nano", "nano@1")]
    registry.start_canary("r1", make_version("nano", "2"), 0.1)
    assert screened() == [Offer("nano", "nano@1", "nano@2", 0.1, "r1")]
    registry.set_weight("nano", 0.5)
    assert screened() == [Offer("nano", "nano@1", "nano@2", 0.5, "r1")]
    registry.promote("nano")
    assert screened() == [Offer("nano", "nano@2")]
    registry.start_canary("r2", make_version("nano", "3"), 0.1)
    assert screened()[0].candidate == "nano@3"
    registry.rollback("nano")
    assert screened() == [Offer("nano", "nano@2")]
    registry.restore(before)
    assert screened() == [Offer("nano", "nano@1")]
    assert len(screened(tenant="acme")) == 2
    assert registry.screen(make_task(tenant="acme"), Load(), ("bound",)).offers == (Offer("bound", "bound@1"),)
    registry.remove("nano")
    assert screened() == []
