"""Where programs run: in processes that have all ended when the call returns, and in sandboxes.

Start with ``command`` (no sandbox) and ``sandbox`` (the contract, with the same call); ``bubblewrap`` is the
default backend, ``self_test`` shows that it isolates; ``warm`` forks a program that is imported already.
``supervisor``, ``fork_server``, ``enter`` and ``probe`` are scripts of their own. Not here: which program runs,
and what it is told (``upturn.agents``).
"""

from upturn.environments.sandbox.bubblewrap import Bubblewrap, sandbox_environment
from upturn.environments.sandbox.command import CommandEnd, run_command
from upturn.environments.sandbox.sandbox import Sandbox
from upturn.environments.sandbox.warm import WarmProgram
from upturn.environments.sandbox.workspace_file import open_parent

__all__ = [
    "Bubblewrap",
    "CommandEnd",
    "Sandbox",
    "WarmProgram",
    "open_parent",
    "run_command",
    "sandbox_environment",
]
