"""The command line: one file for each command.

``main`` is the entry point of ``upturn``; ``benchmarks`` uses the other names. Start with ``app``, which lists
the commands, then ``output``, which prints their results.
"""

from upturn.cli.app import Target, app, command_group, main, run_command_line
from upturn.cli.live import LiveView
from upturn.cli.output import emit, print_message, progress, resume_hint

__all__ = [
    "LiveView",
    "Target",
    "app",
    "command_group",
    "emit",
    "main",
    "print_message",
    "progress",
    "resume_hint",
    "run_command_line",
]
