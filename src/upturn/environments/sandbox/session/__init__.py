"""A sandbox that stays open: a process in it forks for each command or script, so that the start is paid once.

For one rollout of one tenant: what a command leaves in the workspace, the next one finds. Start with ``session``;
``worker`` is the script inside.
"""

from upturn.environments.sandbox.session.session import SandboxSession

__all__ = ["SandboxSession"]
