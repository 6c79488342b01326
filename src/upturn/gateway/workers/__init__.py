"""Several processes: workers have the clients' connections, the main process has everything that is counted once.

A worker reads requests, sends calls to endpoints and passes their answers to clients. The main process decides,
counts limits and budgets, stores and learns, as without workers; it also answers everything that is no call of an
endpoint. So a limit is the same with any number of workers, and the pool has one writer.

Here: starting workers (``supervisor``), what they do (``application``, ``tries``), what the main process does for
them (``link``), the messages in between. Not here: the application (``app``). Start with ``messages``.
"""

from upturn.gateway.workers.application import WorkerApp
from upturn.gateway.workers.channel import Channel
from upturn.gateway.workers.link import WorkerLink
from upturn.gateway.workers.process import keep_pauses_short, server_config
from upturn.gateway.workers.supervisor import Supervisor

__all__ = ["Channel", "Supervisor", "WorkerApp", "WorkerLink", "keep_pauses_short", "server_config"]
