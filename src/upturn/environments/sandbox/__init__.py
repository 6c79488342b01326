"""Where programs run: in processes that have all ended when the call returns, and in sandboxes.

Start with ``command`` (no sandbox) and ``sandbox`` (the contract, with the same call); ``bubblewrap`` is the
default backend, ``self_test`` shows that it isolates. ``supervisor``, ``enter`` and ``probe`` are scripts of
their own. Not here: which program runs, and what it is told (``upturn.agents``).
"""

from upturn.environments.sandbox.bubblewrap import Bubblewrap, sandbox_environment
from upturn.environments.sandbox.command import CommandEnd, run_command
from upturn.environments.sandbox.sandbox import Sandbox

__all__ = ["Bubblewrap", "CommandEnd", "Sandbox", "run_command", "sandbox_environment"]
