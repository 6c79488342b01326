"""The front door: an HTTP server for any client and any agent. Every call is routed, recorded and learned from.

Here: the HTTP application, who may call, names of episodes, retries, and the server. Not here: decisions and
storage (``loop.online``), the forms of requests and answers (``dialects``). Start with ``app`` and ``model_calls``.
"""

from upturn.gateway.access import Access, OpenAccess
from upturn.gateway.app import build_app
from upturn.gateway.default import default_config
from upturn.gateway.server import Gateway, open_gateway

__all__ = ["Access", "Gateway", "OpenAccess", "build_app", "default_config", "open_gateway"]
