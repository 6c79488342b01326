"""Contradictions between settings of routing, prices and budgets."""

import json
from collections.abc import Iterator
from dataclasses import fields

from upturn.config.combination import Contradiction, without_effect
from upturn.config.config import Config
from upturn.config.routing import USED_BY_POLICY, WITHOUT_OBJECTIVE
from upturn.config.settings import Settings


def routing_contradictions(config: Config) -> Iterator[Contradiction]:
    """Yields every contradiction of routing, prices and budgets."""
    yield from _policy(config)
    yield from _objective(config)
    yield from _prices(config)
    yield from _regions(config)


def _policy(config: Config) -> Iterator[Contradiction]:
    routing = config.routing
    policy = f"routing.policy = {routing.policy!r}"
    shared = {"policy", "frozen", "min_outcomes", "min_outcomes_share", "objective"}
    unused = {member.name for member in fields(routing)} - shared - USED_BY_POLICY[routing.policy]
    yield from without_effect(routing, "routing", "routing.policy", f"with {policy}", names=unused)
    agents_known = sorted(agent.name for agent in config.agents)
    known = ", ".join(agents_known)
    if routing.policy == "fixed_weights" and not any(routing.weights.values()):
        yield Contradiction(
            ("routing.weights", "routing.policy"), f"{policy} needs routing.weights: a share for one of: {known}"
        )
    for name in routing.weights:
        if name not in agents_known:
            message = f"routing.weights.{name} is of no agent; [[agents]] has: {known}"
            yield Contradiction(("routing.weights", "agents"), message)
    if routing.discount not in (None, 1.0) and routing.window is not None:
        yield Contradiction(
            ("routing.discount", "routing.window"),
            f"routing.discount = {routing.discount!r} and routing.window = {routing.window!r} both forget; set one",
        )
    if not routing.min_outcomes:
        because = "with routing.min_outcomes = 0; set min_outcomes"
        share = {"min_outcomes_share"}
        yield from without_effect(routing, "routing", "routing.min_outcomes", because, names=share)
    if routing.policy != "rule_based":
        return
    if not routing.default_agent:
        yield Contradiction(
            ("routing.default_agent", "routing.policy"), f"{policy} needs routing.default_agent, one of: {known}"
        )
    agents = {"default_agent": routing.default_agent}
    agents.update({f"rules.{family}": agent for family, agent in routing.rules.items()})
    for name, agent in agents.items():
        if agent and agent not in agents_known:
            yield Contradiction(
                (f"routing.{name.partition('.')[0]}", "agents"),
                f"routing.{name} = {agent!r} is no agent; [[agents]] has: {known}",
            )


def _objective(config: Config) -> Iterator[Contradiction]:
    routing, weights = config.routing, config.routing.objective
    policy = f"routing.policy = {routing.policy!r}"
    prefix = "routing.objective"
    if routing.policy in WITHOUT_OBJECTIVE:
        reason = f"with {policy}, which weighs neither costs nor latencies"
        yield from without_effect(weights, prefix, "routing.policy", reason)
    if routing.policy == "cheapest" and not (weights.cost_weight or weights.latency_weight):
        yield Contradiction(
            ("routing.policy", prefix),
            f"{policy} needs {prefix}.cost_weight or latency_weight above 0; without them all agents are as cheap",
        )
    if not weights.cost_weight:
        return
    for index, agent in enumerate(config.agents):
        if not agent.price and config.price_of(agent.name, agent.model) is None:
            name = json.dumps(agent.model or agent.name)
            cure = f"add [prices.{name}]" + ("" if agent.model else f" and set its price = {name}")
            yield Contradiction(
                (f"agents[{index}].price", "prices", prefix),
                f"agents[{index}] ({agent.name!r}) has no price, but {prefix}.cost_weight = {weights.cost_weight} "
                f"weighs costs; {cure}",
            )


def _prices(config: Config) -> Iterator[Contradiction]:
    for index, agent in enumerate(config.agents):
        if agent.price and agent.price not in config.prices:
            message = f"agents[{index}].price = {agent.price!r} has no table [prices.{json.dumps(agent.price)}]; "
            known = ", ".join(map(repr, sorted(config.prices))) or "none"
            yield Contradiction((f"agents[{index}].price", "prices"), f"{message}there is {known}; add it")
    if not config.prices:
        reason = "without prices: no cost is known; add [prices.NAME] tables"
        budgets = {"usd_per_day", "usd_per_month"}
        limits: list[tuple[str, Settings]] = [("access.key_limits", config.access.key_limits)]
        limits += [(f"access.tenants[{index}]", tenant) for index, tenant in enumerate(config.access.tenants)]
        for prefix, section in limits:
            yield from without_effect(section, prefix, "prices", reason, names=budgets)


def _regions(config: Config) -> Iterator[Contradiction]:
    known = sorted({agent.region for agent in config.agents if agent.region})
    owners = [(f"access.tenants[{index}]", tenant.regions) for index, tenant in enumerate(config.access.tenants)]
    owners += [(f"gateway.routes[{index}]", route.regions) for index, route in enumerate(config.gateway.routes)]
    for prefix, regions in owners:
        if regions and not set(regions) & set(known):
            listed = ", ".join(map(repr, known)) or "none"
            message = (
                f"{prefix}.regions = {list(regions)!r} allows no agent; the regions of [[agents]] are: {listed}"
            )
            yield Contradiction((f"{prefix}.regions", "agents"), message)
