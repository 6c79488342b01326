"""A run that can be interrupted: its folder, its journal, and what its steps share.

Here: opening a run, checks before any work, the environment and tasks that the configuration names. Not here: the
steps themselves (``loop.cycle``, ``trainers``). Start with ``context``.
"""

from upturn.loop.run.context import Context, keep_agent_version, limits_of, open_run, torch_set, version_of
from upturn.loop.run.journal import read_progress
from upturn.loop.run.run_folders import chosen_run, latest_run
from upturn.loop.run.settings import CONTINUATIONS, adapter_settings, continuations
from upturn.loop.run.task_source import FEWEST_SET_ASIDE, SET_ASIDE, FileKit

__all__ = [
    "CONTINUATIONS",
    "FEWEST_SET_ASIDE",
    "SET_ASIDE",
    "Context",
    "FileKit",
    "adapter_settings",
    "chosen_run",
    "continuations",
    "keep_agent_version",
    "latest_run",
    "limits_of",
    "open_run",
    "read_progress",
    "torch_set",
    "version_of",
]
