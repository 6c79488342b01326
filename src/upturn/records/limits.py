"""What operators change about an agent in service."""

from upturn.records.record import record


@record
class AgentLimits:
    """An operator's limits of one agent, for all of its versions. Its earlier states stay in the pool."""

    id: str
    """Name of the agent."""
    reason: str
    """Who set it and why."""
    capabilities: tuple[str, ...] | None = None
    """Environments that the agent may act in; empty = any, None = those of its version."""
    tenants: tuple[str, ...] | None = None
    """Tenants that it may serve; None = those of its version."""
    max_concurrent: int | None = None
    """Maximum number of tasks in flight; None = the configured one."""
    is_suspended: bool = False
    """True = it gets no tasks."""
