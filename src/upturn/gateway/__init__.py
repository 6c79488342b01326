"""The front door: an HTTP server for any client and any agent. Every call is routed, recorded and learned from.

Here: the HTTP application, names of episodes, retries, the server; who may call (``access``), metrics and traces
(``observation``), what operators do (``operations``), several processes (``workers``). Not here: decisions and
storage (``loop.online``), the forms of requests and answers (``dialects``). Start with ``app`` and ``model_calls``.
"""

from upturn.gateway.app import Parts, build_app
from upturn.gateway.default import default_config
from upturn.gateway.listener import base_url, bind_workers, port_of, serve, serve_with_workers
from upturn.gateway.observed_call import Observer
from upturn.gateway.operations import Source
from upturn.gateway.server import Gateway, open_gateway
from upturn.gateway.workers import keep_pauses_short

__all__ = [
    "Gateway",
    "Observer",
    "Parts",
    "Source",
    "base_url",
    "bind_workers",
    "build_app",
    "default_config",
    "keep_pauses_short",
    "open_gateway",
    "port_of",
    "serve",
    "serve_with_workers",
]
