"""The names that clients put into ``model``, and the agents that they stand for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from upturn.arbiter import AgentRegistry
from upturn.config import GatewayConfig, ProviderToolPolicy, RouteConfig
from upturn.dialects import RequestError
from upturn.records import Alternative, Decision

DEFAULT_ROUTE = "default"
NAMED = "named"
"""The policy in decisions of calls whose agent version was not for the router to choose."""


@dataclass(frozen=True, slots=True)
class Target:
    """What a name stands for: a route, or one agent version."""

    route: str
    """Empty = the name is of an agent or a version."""
    agents: frozenset[str] | None
    """Agents that a call may go to; None = all."""
    has_fallback: bool
    provider_tools: ProviderToolPolicy = "refuse"
    """What happens to requests for tools that the provider runs."""
    version: str | None = None
    """The version that the client named; None = the router chooses."""
    regions: tuple[str, ...] = ()
    """Regions of agents that a call may go to; empty = any."""


class RouteTable:
    """The routes of the configuration, and the agents in service."""

    def __init__(self, config: GatewayConfig, registry: AgentRegistry) -> None:
        self._registry = registry
        self._routes: Mapping[str, RouteConfig] = {}
        self.replace(config)

    def replace(self, config: GatewayConfig) -> None:
        """Continues with the routes of another configuration."""
        self._routes = {route.name: route for route in config.routes or (RouteConfig(name=DEFAULT_ROUTE),)}

    def names(self) -> Sequence[str]:
        """Returns the names that clients may use: routes, then agents in service that answer calls, then their
        versions."""
        served = [
            version
            for member in self._registry.agents().values()
            for version in (member.incumbent, member.candidate)
            if version is not None and version.kind != "program"  # which answers tasks only
        ]
        agents = [version.agent for version in served]
        return list(dict.fromkeys([*self._routes, *agents, *(version.id for version in served)]))

    def resolve(self, name: str) -> Target:
        """Returns what the name stands for; raises RequestError (404) for an unknown one."""
        route = self._routes.get(name) or self._aliased(name)
        if route is not None:
            agents = frozenset(route.agents) or None
            return Target(route.name, agents, route.fallback, route.provider_tools, regions=route.regions)
        for agent, member in self._registry.agents().items():
            if name == agent:  # a canary goes on for clients that name the agent
                return Target("", frozenset([agent]), has_fallback=False)
            for version in (member.incumbent, member.candidate):
                if version is not None and version.id == name:
                    return Target("", frozenset([agent]), has_fallback=False, version=name)
        raise RequestError(
            f"unknown model {name!r}; known: {', '.join(self.names())}. A route's aliases in [[gateway.routes]] "
            "make further names known",
            status=404,
            code="model_not_found",
            field="model",
        )

    def _aliased(self, name: str) -> RouteConfig | None:
        return next(
            (
                route
                for route in self._routes.values()
                if any(fnmatchcase(name, pattern) for pattern in route.aliases)
            ),
            None,
        )


def named_decision(decision: Decision, version: str, reason: str) -> Decision:
    """Returns the decision with a version that the router did not choose."""
    return replace(
        decision,
        policy=NAMED,
        agent=version.rpartition("@")[0],
        chosen=version,
        propensity=1.0,
        alternatives=(Alternative(version, 1.0, None),),
        reason=reason,
        release=None,
        arm=None,
    )
