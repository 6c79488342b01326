"""Clients' model calls and submitted tasks: reads, states, and the deletion of what was said in calls.

Calls are written like all records, with ``Pool.append``. Start with ``reads``.
"""

from upturn.pool.calls.reads import (
    IdleEpisode,
    StoredCall,
    call_by_id,
    calls_of_episode,
    episode_decision,
    idle_episodes,
    latest_prefix,
)
from upturn.pool.calls.retention import delete_contents
from upturn.pool.calls.submissions import (
    Submission,
    SubmissionState,
    cancel_queued,
    find_submission,
    set_states,
    submissions_in,
    submit_task,
)

__all__ = [
    "IdleEpisode",
    "StoredCall",
    "Submission",
    "SubmissionState",
    "call_by_id",
    "calls_of_episode",
    "cancel_queued",
    "delete_contents",
    "episode_decision",
    "find_submission",
    "idle_episodes",
    "latest_prefix",
    "set_states",
    "submissions_in",
    "submit_task",
]
