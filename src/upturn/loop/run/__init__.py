"""A resumable run: its folder, its journal, and what its steps share.

Here: opening a run, checks before any work, the environment and tasks that the configuration names. Not here: the
steps themselves (``loop.cycle``, ``trainers``). Start with ``context``.
"""

from upturn.loop.run.configured_freeze import CONFIGURATION, apply_configured_freeze
from upturn.loop.run.context import (
    Context,
    adapter_settings,
    configure_torch,
    limits_of,
    open_run,
    policy_of,
    store_agent_version,
    transfer_folder,
    version_of,
)
from upturn.loop.run.in_service import InService
from upturn.loop.run.journal import read_progress
from upturn.loop.run.objective import objective_of
from upturn.loop.run.preflight import load_checked_kit, name_problems
from upturn.loop.run.reload import ConfigChanges, apply_agents, config_changes, reload_config
from upturn.loop.run.reward_models import proxy_scores
from upturn.loop.run.run_folders import choose_run, latest_run
from upturn.loop.run.task_source import FEWEST_SET_ASIDE, SET_ASIDE, FileKit

__all__ = [
    "CONFIGURATION",
    "FEWEST_SET_ASIDE",
    "SET_ASIDE",
    "ConfigChanges",
    "Context",
    "FileKit",
    "InService",
    "adapter_settings",
    "apply_agents",
    "apply_configured_freeze",
    "choose_run",
    "config_changes",
    "configure_torch",
    "latest_run",
    "limits_of",
    "load_checked_kit",
    "name_problems",
    "objective_of",
    "open_run",
    "policy_of",
    "proxy_scores",
    "read_progress",
    "reload_config",
    "store_agent_version",
    "transfer_folder",
    "version_of",
]
