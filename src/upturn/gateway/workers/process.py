"""What every process that serves has: the settings of its HTTP server and of its interpreter."""

import gc
import sys

import uvicorn
from starlette.types import ASGIApp

STOP_SECONDS = 30
"""How long calls in service may take to end after a signal."""


def server_config(app: ASGIApp, *, has_lifespan: bool = True) -> uvicorn.Config:
    """Returns the settings. ``has_lifespan``: the application has things to start and to stop."""
    return uvicorn.Config(
        app,
        loop="uvloop",
        http="httptools",
        ws="none",
        lifespan="on" if has_lifespan else "off",
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        timeout_graceful_shutdown=STOP_SECONDS,
    )


def keep_pauses_short() -> None:
    """Sets up the interpreter of a process that serves; called once, when everything is loaded.

    The garbage collector no longer visits what is loaded now, which took it 0.1 s a time. The pool's writer waits
    for the interpreter at most half a millisecond instead of five.
    """
    gc.collect()
    gc.freeze()
    sys.setswitchinterval(0.0005)
