"""The front door: an HTTP server for any client and any agent. Every call is routed, recorded and learned from.

Here: the HTTP application, names of episodes, retries, the server; who may call (``access``), metrics and traces
(``observation``). Not here: decisions and
storage (``loop.online``), the forms of requests and answers (``dialects``). Start with ``app`` and ``model_calls``.
"""

from upturn.gateway.app import Parts, build_app
from upturn.gateway.default import default_config
from upturn.gateway.observed_call import Observer
from upturn.gateway.operations import Source
from upturn.gateway.server import Gateway, open_gateway
from upturn.gateway.serving import serve

__all__ = [
    "Gateway",
    "Observer",
    "Parts",
    "Source",
    "build_app",
    "default_config",
    "open_gateway",
    "serve",
]
