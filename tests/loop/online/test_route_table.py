"""The names that clients may put into ``model``."""

from upturn.arbiter import AgentRegistry
from upturn.config import GatewayConfig
from upturn.loop.online import RouteTable
from upturn.records import AgentVersion


def test_agents_that_answer_tasks_only_are_no_names_for_model() -> None:
    registry = AgentRegistry()
    registry.add(AgentVersion("ann", "1", "endpoint"))
    registry.add(AgentVersion("ben", "1", "program"))
    assert RouteTable(GatewayConfig(), registry).names() == ["default", "ann", "ann@1"]
    registry.start_canary("r1", AgentVersion("ann", "2", "endpoint"), 0.5)
    assert RouteTable(GatewayConfig(), registry).names() == ["default", "ann", "ann@1", "ann@2"]
