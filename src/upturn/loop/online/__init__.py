"""The online form of the service: model calls of clients, one at a time, many at once, outcomes later.

Here: routes, episodes, decisions, storage before an answer's end, and the trajectories of sealed episodes. Not
here: HTTP (``gateway``) and sending (``models.upstreams``). Start with ``service``, then ``episode``.
"""

from upturn.loop.online.account import Account, Left, TaskAccounts
from upturn.loop.online.arrival import Arrival, Decided
from upturn.loop.online.call_log import CallLog
from upturn.loop.online.call_task import GENERAL, call_task
from upturn.loop.online.canary_evidence import CanaryEvidence
from upturn.loop.online.decision_log import SUCCESS, DecisionLog, read_decision_log
from upturn.loop.online.episode import Client, EpisodeTracker, Known, Placement
from upturn.loop.online.family import FamilyGuess
from upturn.loop.online.feedback import Opinion, Receipt, accept_feedback
from upturn.loop.online.routes import DEFAULT_ROUTE, RouteTable, Target
from upturn.loop.online.sealing import Sealed, StoredEpisode, read_episode, seal_idle, seal_rated
from upturn.loop.online.service import LiveCall, OnlineService
from upturn.loop.online.task_queue import TaskQueue, new_task_id
from upturn.loop.online.text_features import CallTexts, TextEmbedder
from upturn.loop.online.trajectory import RecordedCall, episode_records, is_answered, with_rendered_rows

__all__ = [
    "DEFAULT_ROUTE",
    "GENERAL",
    "SUCCESS",
    "Account",
    "Arrival",
    "CallLog",
    "CallTexts",
    "CanaryEvidence",
    "Client",
    "Decided",
    "DecisionLog",
    "EpisodeTracker",
    "FamilyGuess",
    "Known",
    "Left",
    "LiveCall",
    "OnlineService",
    "Opinion",
    "Placement",
    "Receipt",
    "RecordedCall",
    "RouteTable",
    "Sealed",
    "StoredEpisode",
    "Target",
    "TaskAccounts",
    "TaskQueue",
    "TextEmbedder",
    "accept_feedback",
    "call_task",
    "episode_records",
    "is_answered",
    "new_task_id",
    "read_decision_log",
    "read_episode",
    "seal_idle",
    "seal_rated",
    "with_rendered_rows",
]
