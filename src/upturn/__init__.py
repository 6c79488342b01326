"""Upturn trains AI agents on their own work: it routes tasks, verifies and stores results, trains, and releases.

``loop`` connects the serving side (``arbiter``, ``pool``) with the learning side (``environments``, ``agents``,
``rewards``, ``training``). ``deployment`` validates and releases versions. ``models``, ``records`` and ``config``
serve both sides. Start with ``loop``, or with ``cli`` for a command.
"""

__version__ = "0.1.0"
