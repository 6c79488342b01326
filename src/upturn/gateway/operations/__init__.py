"""What operators do over HTTP: agents, releases, the router, a reload of the configuration. All acts are recorded.

Start with ``operator``, then ``release_routes`` and ``reload``.
"""

from upturn.gateway.operations.admin_routes import admin_routes
from upturn.gateway.operations.agent_routes import Agents, agent_routes
from upturn.gateway.operations.operator import Operators
from upturn.gateway.operations.policy_routes import policy_routes
from upturn.gateway.operations.release_routes import release_routes
from upturn.gateway.operations.reload import Reloaded, Reloader, Source
from upturn.gateway.operations.router_routes import router_routes

__all__ = [
    "Agents",
    "Operators",
    "Reloaded",
    "Reloader",
    "Source",
    "admin_routes",
    "agent_routes",
    "policy_routes",
    "release_routes",
    "router_routes",
]
