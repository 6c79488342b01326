"""Calls, feedback, seals, agents in and out of service, failures and restarts in any order, against a small model.

What was acknowledged is in the pool, also after a restart; a value teaches once; a sealed episode takes no calls; a
tenant meets nothing of another; and a router that learns everything again ends with the same bits.
"""

import asyncio
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.loop.online.online_desk import Desk, open_desk
from upturn.arbiter import DiscountedThompson, Learner
from upturn.dialects import Message, ModelRequest, RequestError, Text, dialect_of
from upturn.loop.online import Arrival, Client, Opinion, accept_feedback, read_episode
from upturn.models.upstreams import UpstreamError
from upturn.pool import ALL_TENANTS, Pool
from upturn.pool.calls import calls_of_episode
from upturn.records import AgentVersion

TENANTS = ("acme", "globex")
EPISODES = ("one", "two")
AGENTS = ("ann", "ben")
tenants = st.sampled_from(TENANTS)
episodes = st.sampled_from(EPISODES)


@dataclass
class Expected:
    """What must be stored."""

    calls: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Tenant and status by id."""
    episodes: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    """Ids of the calls by tenant and name, in their order."""
    sealed: set[tuple[str, str]] = field(default_factory=set)
    values: dict[str, list[float]] = field(default_factory=dict)
    """Values by decision; the first one teaches."""
    fallen_back: set[str] = field(default_factory=set)
    """Calls whose chosen agent failed, and another was asked: this teaches as well."""
    in_service: set[str] = field(default_factory=lambda: set(AGENTS))


def refused(error: RequestError, status: int, code: str) -> None:
    assert (error.status, error.code) == (status, code), str(error)


class Serving(RuleBasedStateMachine):
    """Two tenants, two agents, two named episodes for each tenant."""

    decisions = Bundle("decisions")

    @initialize()
    def start(self) -> None:
        self.folder = Path(mkdtemp())
        self.runner = asyncio.Runner()
        self.expected = Expected()
        self._open()

    def _open(self) -> None:
        self.pool = Pool.open(self.folder / "pool.db").__enter__()
        self.desk: Desk = open_desk(self.pool, agents=AGENTS)
        for agent in set(AGENTS) - self.expected.in_service:
            self.desk.service.router.registry.remove(agent)
        self.learner = Learner(self.pool, DiscountedThompson(), tenant=ALL_TENANTS)
        self.learner.start()

    def teardown(self) -> None:
        if hasattr(self, "runner"):
            self.learn()
            self.pool.close()
            self.runner.close()
            shutil.rmtree(self.folder)

    def _call(self, tenant: str, episode: str | None, text: str) -> str:
        request = ModelRequest("default", (Message("user", (Text(text),)),))
        arrival = Arrival(dialect_of("chat"), b"", request, Client(tenant), {}, episode)

        async def run() -> str:
            async with self.desk.service.serve(arrival) as call:
                async for _ in call.chunks():
                    pass
                return call.decided.decision.id

        return self.runner.run(run())

    def _refusal(self, tenant: str, episode: str | None) -> tuple[int, str] | None:
        """Status and code with which a call must be refused before it is sent; None = it is served."""
        if (tenant, episode) in self.expected.sealed:
            return 409, "episode_sealed"
        return None if self.expected.in_service else (503, "no_agent")

    def _stored(self, tenant: str, episode: str | None, call: str, status: str) -> None:
        self.expected.calls[call] = (tenant, status)
        if episode is not None:
            self.expected.episodes.setdefault((tenant, episode), []).append(call)

    @rule(target=decisions, tenant=tenants, episode=st.none() | episodes, text=st.sampled_from(["a", "b"]))
    def call(self, tenant: str, episode: str | None, text: str) -> Any:
        expected = self._refusal(tenant, episode)
        try:
            decision = self._call(tenant, episode, text)
        except RequestError as error:
            assert expected is not None, str(error)
            refused(error, *expected)
            return ""
        assert expected is None
        self._stored(tenant, episode, decision, "answered")
        return decision

    @rule(tenant=tenants, episode=st.none() | episodes, down=st.sampled_from([("ann",), ("ben",), AGENTS]))
    def call_while_agents_are_down(self, tenant: str, episode: str | None, down: tuple[str, ...]) -> None:
        expected = self._refusal(tenant, episode)
        before = {decision.id for decision in self.pool.decisions(tenant=tenant)}
        self._set_errors(down)
        try:
            self._call(tenant, episode, "a")
            status = "answered"
            assert expected is None and not self.expected.in_service <= set(down)
        except RequestError as error:
            status = "failed"
            refused(error, *(expected or (502, "upstream_error")))
        self._set_errors(())
        new = [decision for decision in self.pool.decisions(tenant=tenant) if decision.id not in before]
        assert len(new) == (expected is None)
        for decision in new:
            self._stored(tenant, episode, decision.id, status)
            members = calls_of_episode(self.pool.engine, str(decision.episode), tenant=tenant)
            if any(member.call.attempted for member in members if member.call.id == decision.id):
                self.expected.fallen_back.add(decision.id)

    def _set_errors(self, down: tuple[str, ...]) -> None:
        for agent in AGENTS:
            error = UpstreamError("down", kind="connect") if agent in down else None
            self.desk.upstreams[f"{agent}@1"].error = error

    @rule(tenant=tenants, decision=decisions, value=st.sampled_from([0.0, 1.0]))
    def give_feedback(self, tenant: str, decision: str, value: float) -> None:
        opinion = Opinion("decision", decision, "success", value)
        try:
            receipt = self.runner.run(accept_feedback(self.pool, self.desk.service.log, opinion, Client(tenant)))
        except RequestError as error:
            assert self.expected.calls.get(decision, ("", ""))[0] != tenant
            refused(error, 404, "unknown_decision")
            return
        assert self.expected.calls[decision][0] == tenant
        values = self.expected.values.setdefault(decision, [])
        assert receipt.state == ("known" if value in values else "contradicts" if values else "stored")
        if value not in values:
            values.append(value)

    @rule(tenant=tenants, episode=episodes)
    def seal(self, tenant: str, episode: str) -> None:
        try:
            sealed = self.runner.run(self.desk.service.seal(episode, Client(tenant)))
        except RequestError as error:
            assert (tenant, episode) not in self.expected.episodes
            refused(error, 404, "unknown_episode")
            return
        assert [stored.call.id for stored in sealed.calls] == self.expected.episodes[tenant, episode]
        assert sealed.trajectory_id is not None
        self.expected.sealed.add((tenant, episode))

    @rule(agent=st.sampled_from(AGENTS))
    def take_in_or_out_of_service(self, agent: str) -> None:
        registry = self.desk.service.router.registry
        if agent in self.expected.in_service:
            registry.remove(agent)
            self.expected.in_service.remove(agent)
        else:
            registry.add(AgentVersion(agent, "1", "callable", model="module:function"))
            self.expected.in_service.add(agent)

    @rule()
    def learn(self) -> None:
        """Learning again gives the same bits, and each value has taught once."""
        self.learner.catch_up()
        again = Learner(self.pool, DiscountedThompson(), tenant=ALL_TENANTS)
        again.catch_up()
        assert again.policy.state() == self.learner.policy.state()
        assert again.learned == len(self.expected.values.keys() | self.expected.fallen_back)

    @precondition(lambda self: self.expected.calls)
    @rule(saves=st.booleans())
    def restart(self, saves: bool) -> None:
        self.learner.catch_up()
        state = self.learner.policy.state()
        if saves:
            self.learner.save()
        self.pool.close()
        self._open()
        assert self.learner.policy.state() == state

    @invariant()
    def nothing_is_lost_and_tenants_do_not_meet(self) -> None:
        for tenant in TENANTS:
            mine = {call for call, (owner, _) in self.expected.calls.items() if owner == tenant}
            assert {decision.id for decision in self.pool.decisions(tenant=tenant)} == mine
            for episode in EPISODES:
                calls = self.expected.episodes.get((tenant, episode))
                if calls is None:
                    continue
                stored = read_episode(self.pool.engine, episode, Client(tenant))
                assert [member.call.id for member in stored.calls] == calls
                assert [member.call.status for member in stored.calls] == [
                    self.expected.calls[call][1] for call in calls
                ]
                assert (stored.trajectory_id is not None) == ((tenant, episode) in self.expected.sealed)


Serving.TestCase.settings = settings(max_examples=settings().max_examples // 25, stateful_step_count=25)
TestServing = Serving.TestCase
