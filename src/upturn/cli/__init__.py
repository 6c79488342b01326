"""The command line. ``main`` is what the ``upturn`` command runs."""

from upturn.cli.app import main

__all__ = ["main"]
