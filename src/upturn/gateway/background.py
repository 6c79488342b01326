"""What a gateway does once a second: take over operators' acts, learn, judge canaries, show its state."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from functools import partial
from time import monotonic

from upturn.arbiter import Learner, Router
from upturn.arbiter.texts import TextLearner
from upturn.config import CanarySettings
from upturn.deployment import Override, hold
from upturn.errors import UpturnError
from upturn.gateway.observation import GatewayMetrics
from upturn.gateway.upstreams import Upstreams
from upturn.loop import reserved_policy
from upturn.loop.online import CanaryEvidence
from upturn.loop.run import ConfigChanges, InService, apply_agents
from upturn.pool import States
from upturn.records import Release

SECONDS = 1.0
SAVE_SECONDS = 60.0
"""Between two snapshots of what the router has learned; they only save time at the next start."""
RECORDS_AT_ONCE = 400
"""Records that are learned without a pause, about 0.1 s: a thawed router or an import may leave 100,000."""
_log = logging.getLogger("upturn.gateway")


class Background:
    """Keeps registry, upstreams, router and releases as the pool has them. For one event loop."""

    def __init__(
        self,
        in_service: InService,
        router: Router,
        upstreams: Upstreams,
        learner: Learner,
        *,
        evidence: CanaryEvidence,
        metrics: GatewayMetrics,
    ) -> None:
        self.canary = CanarySettings()
        """The settings of canaries; may be replaced at any time."""
        self.texts: TextLearner | None = None
        """Learns from texts; None = nothing is learned from them."""
        self._in_service = in_service
        self._router = router
        self._upstreams = upstreams
        self._learner = learner
        self._metrics = metrics
        self._evidence = evidence
        self._saved = 0.0
        """When the last snapshots were stored, by ``monotonic``."""

    def replace_learner(self, learner: Learner) -> None:
        """Routes by what another learner has learned."""
        self._learner = learner
        self._follow()

    def sync(self) -> None:
        """Takes over promotions, canaries and limits from the pool."""
        if self._in_service.sync():
            self._follow()

    def reconfigure(self, changes: ConfigChanges) -> None:
        """Serves the agents of a new configuration; raises ReleaseError as ``apply_agents`` does."""
        apply_agents(changes, self._learner.pool, self._in_service)
        self.canary = changes.config.canary
        self._follow()

    def hold_stranded(self, agents: Collection[str], override: Override) -> tuple[str, ...]:
        """Holds the running canaries of these agents if they are not in service; returns their ids."""
        stranded = [release for release in self._in_service.stranded_releases() if release.agent in agents]
        for release in stranded:
            why = f"agent {release.agent!r} was removed from the configuration"
            note = Override(override.who, f"{why}: {override.why}" if override.why else why)

            def step(states: States[Release], known: Release = release, note: Override = note) -> Release:
                current = states.get(known.id) or known
                return hold(current, note) if current.state == "canary" and not current.is_held else current

            self._learner.pool.change(Release, step)
        return tuple(release.id for release in stranded)

    def _follow(self) -> None:
        """Makes upstreams and routing follow the agents in service and the open releases."""
        for served in self._router.registry.agents().values():
            for version in (served.incumbent, served.candidate):
                if version is not None:
                    self._upstreams.add(version)
        agents = [release.agent for release in self._in_service.open_releases()]
        self._router.policy = reserved_policy(self._learner.policy, agents)

    async def judge(self) -> None:
        """Gives open releases the outcomes of what was served, and applies their verdicts."""
        if await asyncio.to_thread(self._advance):
            self.sync()

    def _advance(self) -> bool:
        return bool(self._evidence.advance(self._in_service.open_releases(), self.canary))

    def learn(self) -> None:
        """Teaches the router what was stored since the last time; of a long backlog only the first records."""
        self._metrics.show_learner_lag(lag := self._learner.lag)
        self._learner.catch_up(self._learner.sequence + min(lag, RECORDS_AT_ONCE))

    async def learn_all(self) -> None:
        """Teaches the router all that is stored now, and serves calls in between."""
        end, before = self._learner.sequence + self._learner.lag, -1
        while before < self._learner.sequence < end:  # a frozen router stays where it is
            before = self._learner.sequence
            self.learn()
            await asyncio.sleep(0)

    def save(self) -> None:
        """Stores snapshots of what was learned."""
        _run_all(self._saves())

    def _saves(self) -> Sequence[Callable[[], None]]:
        """Takes snapshots of what was learned; returns what stores them, in any thread."""
        saves = [partial(self._learner.save, self._learner.snapshot())]
        if (consumption := self._learner.consumption) is not None:
            saves.append(partial(consumption.save, consumption.snapshot()))
        if self.texts is not None:
            saves.append(partial(self.texts.save, self.texts.snapshot()))
        return saves

    async def run(self, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        """Repeats all of it until it is cancelled; what fails is logged and tried again."""
        self._saved = monotonic()
        while True:
            # one by one: a release whose model is gone must not stop the router from learning
            for step in (self._follow_pool, self._follow_outcomes, self.judge, self._save_sometimes):
                try:
                    await step()
                except UpturnError:
                    _log.exception("the gateway could not follow the pool; it tries again in a second")
            await sleep(SECONDS)

    async def _follow_pool(self) -> None:
        self.sync()

    async def _follow_outcomes(self) -> None:
        self.learn()
        await self.learn_all()
        if self.texts is not None:
            self.texts.catch_up()
        for version, upstream in self._upstreams.all().items():
            if (breaker := upstream.breaker_state) is not None:
                self._metrics.show_breaker(version.rpartition("@")[0], breaker)

    async def _save_sometimes(self) -> None:
        if monotonic() - self._saved > SAVE_SECONDS:
            await asyncio.to_thread(_run_all, self._saves())
            self._saved = monotonic()


def _run_all(actions: Iterable[Callable[[], None]]) -> None:
    for act in actions:
        act()
