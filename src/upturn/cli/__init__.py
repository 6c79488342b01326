"""The command line: one file for each command.

``main`` is what the ``upturn`` command runs; the other names serve ``benchmarks``. Start with ``app``, which lists
the commands, then ``output``, which prints what they return.
"""

from upturn.cli.app import Target, app, command_group, main, run_command_line
from upturn.cli.live import LiveView
from upturn.cli.output import emit, progress, resumable, say

__all__ = [
    "LiveView",
    "Target",
    "app",
    "command_group",
    "emit",
    "main",
    "progress",
    "resumable",
    "run_command_line",
    "say",
]
