"""What operators do over HTTP: agents, releases, and a reload of the configuration. Every act is recorded.

Start with ``operator``, then ``release_routes`` and ``reload``.
"""

from upturn.gateway.operations.admin_routes import admin_routes
from upturn.gateway.operations.agent_routes import Agents, agent_routes
from upturn.gateway.operations.operator import Operators
from upturn.gateway.operations.release_routes import release_routes
from upturn.gateway.operations.reload import Reloaded, Reloader, Source

__all__ = [
    "Agents",
    "Operators",
    "Reloaded",
    "Reloader",
    "Source",
    "admin_routes",
    "agent_routes",
    "release_routes",
]
