"""Calls from web pages (CORS): closed unless the configuration lists the page's origin."""

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from upturn.config import AccessConfig

_PREFLIGHT_SECONDS = 600


def with_origins(app: ASGIApp, access: AccessConfig) -> ASGIApp:
    """Returns the application that answers pages of the allowed origins; ``app`` itself where there are none.

    Cookies are never allowed: callers are recognised by key.
    """
    if not access.allowed_origins:
        return app
    return CORSMiddleware(
        app,
        allow_origins=access.allowed_origins,
        allow_methods=("GET", "POST", "DELETE"),
        allow_headers=("*",),
        expose_headers=("retry-after", "x-upturn-replayed"),
        max_age=_PREFLIGHT_SECONDS,
    )
