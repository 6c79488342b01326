"""A service over a pool with scripted upstreams, for tests of the online service and the gateway."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import NamedTuple

from upturn.arbiter import AgentRegistry, DiscountedThompson, Router, RunKey
from upturn.config import GatewayConfig, PriceConfig
from upturn.dialects import FinishReason, ModelAnswer, ModelRequest, Part, Text, TokenUsage
from upturn.loop.online import OnlineService, RouteTable
from upturn.models.upstreams import Exchange, Forwarded, FunctionUpstream, Upstream, UpstreamCall, UpstreamError
from upturn.pool import Pool
from upturn.records import AgentVersion

Answering = Callable[[ModelRequest], "str | ModelAnswer"]


CONFIG = GatewayConfig()


class Scripted:
    """An upstream that answers with a function, and may fail, hang or count."""

    def __init__(self, name: str) -> None:
        self.calls: list[UpstreamCall] = []
        self.error: UpstreamError | None = None
        """None = it answers."""
        self.answer: Answering = lambda request: ModelAnswer(
            "", name, (Text(f"{name} heard {len(request.messages)}"),), "stop", TokenUsage(10, 5)
        )
        self.gate: asyncio.Event | None = None
        """It answers once this is set; None = at once."""
        self.cancelled = 0
        self._name = name

    @asynccontextmanager
    async def open(self, call: UpstreamCall) -> AsyncIterator[Exchange]:
        self.calls.append(call)
        if self.error is not None:
            raise self.error
        if self.gate is not None:
            try:
                await self.gate.wait()
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
        async with FunctionUpstream(self.answer, self._name).open(call) as exchange:
            yield exchange

    breaker_state = None

    async def embed(self, body: bytes) -> Forwarded:
        """The length of the body as the only embedding."""
        if self.error is not None:
            raise self.error
        return Forwarded(b'{"data": [{"embedding": [%d]}], "usage": {"prompt_tokens": 7}}' % len(body), 7)

    async def close(self) -> None:
        """There is nothing to close."""

    def answer_with(self, *parts: Part, finish: FinishReason = "stop") -> None:
        """Answers every request with these parts."""
        self.answer = lambda _: ModelAnswer("", self._name, parts, finish, TokenUsage(3, 4))


class Desk(NamedTuple):
    """A service with its parts."""

    service: OnlineService
    pool: Pool
    upstreams: Mapping[str, Scripted]


def open_desk(
    pool: Pool,
    config: GatewayConfig = CONFIG,
    agents: tuple[str, ...] = ("ann", "ben"),
    prices: Mapping[str, PriceConfig] = {},
) -> Desk:
    """A service over the pool with one version of each agent. ``prices``: by version."""
    registry = AgentRegistry()
    for agent in agents:
        registry.add(AgentVersion(agent, "1", "callable", model="module:function"))
    scripted = {f"{agent}@1": Scripted(f"{agent}@1") for agent in agents}

    def upstream(version: str) -> Upstream:
        if version not in scripted:
            raise LookupError(f"no {version}")
        return scripted[version]

    router = Router(registry, DiscountedThompson(), RunKey("test", 0))
    return Desk(
        OnlineService(pool, router, RouteTable(config, registry), upstream, price=prices.get), pool, scripted
    )
