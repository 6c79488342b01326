"""Hard constraints of configured agents: what they support, how long a prompt may be, and where they run.

They exclude agents before a policy sees them, with the reason. Tenants, environments and load caps are checked by
the registry, and budgets by the router.
"""

from collections.abc import Mapping, Sequence

from upturn.arbiter.registry import Exclusion, Offer, Screening
from upturn.config import AgentConfig, TenantConfig
from upturn.records import MODEL_CALL, Task

_ASKED = {"tools": "tools", "has_images": "images", "has_schema": "schema"}
"""Fields of a call's context, and what an agent must support where they are true."""
_ALL = frozenset(_ASKED.values())
_NOT_LOCAL = frozenset(("images", "schema"))
"""What no model in this process can do, whatever its configuration says."""


class Constraints:
    """The constraints of a configuration."""

    def __init__(self, agents: Sequence[AgentConfig] = (), tenants: Sequence[TenantConfig] = ()) -> None:
        self._agents: Mapping[str, AgentConfig] = {agent.name: agent for agent in agents}
        self._regions: Mapping[str, Sequence[str]] = {tenant.name: tenant.regions for tenant in tenants}
        self._has_limits = any(_supported(agent) != _ALL or agent.max_input_tokens for agent in agents)

    def screened(self, screening: Screening, task: Task) -> Screening:
        """Returns the screening without the agents that may not do the task, which become exclusions."""
        if not self._has_limits and not self._regions.get(task.tenant) and not task.context.get("regions"):
            return screening
        return without(screening, {offer: self.reason(offer.agent, task) for offer in screening.offers})

    def reason(self, agent: str, task: Task) -> str:
        """Returns why an agent may not do a task; empty = it may."""
        limits = self._agents.get(agent)
        if limits is None:
            return ""
        if reason := _outside(limits.region, self._regions.get(task.tenant, ()), f"tenant {task.tenant!r}"):
            return reason
        return _call_reason(limits, task) if task.environment == MODEL_CALL else ""


def without(screening: Screening, reasons: Mapping[Offer, str]) -> Screening:
    """Returns the screening without the offers that have a reason; their versions become exclusions."""
    if not any(reasons.values()):
        return screening
    exclusions = list(screening.exclusions)
    for offer, reason in reasons.items():
        if reason:
            exclusions.append(Exclusion(offer.incumbent, reason))
            if offer.candidate is not None:
                exclusions.append(Exclusion(offer.candidate, reason))
    kept = tuple(offer for offer in screening.offers if not reasons.get(offer))
    return Screening(kept, tuple(exclusions))


def _supported(agent: AgentConfig) -> frozenset[str]:
    return frozenset(agent.supports) - (_NOT_LOCAL if agent.kind == "local_model" else frozenset())


def _call_reason(limits: AgentConfig, task: Task) -> str:
    """Returns why an agent may not answer a model call; empty = it may."""
    for field, what in _ASKED.items():
        if task.context.get(field) and what not in _supported(limits):
            return f"does not support {what}"
    tokens = prompt_tokens(task)
    if limits.max_input_tokens is not None and tokens > limits.max_input_tokens:
        return f"takes prompts of {limits.max_input_tokens:,} tokens; this one has about {tokens:,}"
    regions = task.context.get("regions")
    return (
        _outside(limits.region, [str(name) for name in regions], "the route") if isinstance(regions, list) else ""
    )


def prompt_tokens(task: Task) -> int:
    """Returns the estimated length of a model call's prompt; 0 for other tasks."""
    tokens = task.context.get("tokens")
    return tokens if task.environment == MODEL_CALL and isinstance(tokens, int) else 0


def _outside(region: str, allowed: Sequence[str], owner: str) -> str:
    if not allowed or region in allowed:
        return ""
    where = f"runs in region {region!r}" if region else "has no region"
    return f"{where}; {owner} allows {', '.join(map(repr, allowed))}"
