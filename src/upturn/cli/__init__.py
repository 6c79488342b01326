"""The command line. ``main`` is what the ``upturn`` command runs."""

from upturn.cli.app import app, main

__all__ = ["app", "main"]
