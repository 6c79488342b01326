"""Tasks, versions and decisions for the tests of the arbiter."""

from collections.abc import Callable

import pytest

from upturn.records import AgentVersion, Alternative, Decision, Task

MakeTask = Callable[..., Task]
MakeVersion = Callable[..., AgentVersion]
MakeDecision = Callable[..., Decision]


@pytest.fixture
def make_task() -> MakeTask:
    def make(
        name: str = "t", *, family: str = "mail", tenant: str = "default", environment: str = "office"
    ) -> Task:
        return Task(id=name, instruction="do", family=family, tenant=tenant, environment=environment)

    return make


@pytest.fixture
def make_version() -> MakeVersion:
    def make(
        agent: str,
        version: str = "1",
        *,
        tenants: tuple[str, ...] | None = None,
        capabilities: tuple[str, ...] = (),
    ) -> AgentVersion:
        return AgentVersion(
            agent=agent, version=version, kind="rule_based", tenants=tenants, capabilities=capabilities
        )

    return make


@pytest.fixture
def make_decision() -> MakeDecision:
    def make(
        name: str,
        shares: dict[str, float],
        chosen: str,
        *,
        family: str = "mail",
        episode: str | None = None,
    ) -> Decision:
        return Decision(
            id=name,
            task_id=f"task-{name}",
            family=family,
            tenant="default",
            policy="uniform",
            policy_snapshot="0",
            alternatives=tuple(
                Alternative(version, share, 0.5 if share else None, "" if share else "load cap reached")
                for version, share in shares.items()
            ),
            agent=chosen.partition("@")[0],
            chosen=chosen,
            propensity=shares[chosen],
            reason="because",
            episode=episode,
        )

    return make
