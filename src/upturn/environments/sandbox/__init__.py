"""Where programs run: a command in processes of its own, all of which have ended when its call returns.

Start with ``command``; ``supervisor`` is the script that starts it and ends what it leaves behind. Not here: which
program runs, and what it is told (``upturn.agents``).
"""

from upturn.environments.sandbox.command import CommandEnd, run_command

__all__ = ["CommandEnd", "run_command"]
