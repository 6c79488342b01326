"""Training on the gateway's traffic: what each algorithm takes from sealed episodes, and why not more.

Trainers and ``upturn pool ready`` call the same functions, so that what one reports the other does. Not here: the
reward of an episode (``pool.traffic``). Start with ``traffic``, then ``ways``.
"""

from upturn.loop.trainers.traffic.frozen import (
    FrozenTraffic,
    frozen_traffic,
    note_omissions,
    read_frozen,
    read_sides,
)
from upturn.loop.trainers.traffic.replay import HELD_OUT, MOST_TASKS, Replay, find_tasks, split_tasks
from upturn.loop.trainers.traffic.survey import Way, check_traffic, survey_pool, survey_traffic
from upturn.loop.trainers.traffic.traffic import Traffic, open_traffic, traffic_of
from upturn.loop.trainers.traffic.ways import Found, find_demonstrations, find_pairs, find_ratings, find_sampled

__all__ = [
    "HELD_OUT",
    "MOST_TASKS",
    "Found",
    "FrozenTraffic",
    "Replay",
    "Traffic",
    "Way",
    "check_traffic",
    "find_demonstrations",
    "find_pairs",
    "find_ratings",
    "find_sampled",
    "find_tasks",
    "frozen_traffic",
    "note_omissions",
    "open_traffic",
    "read_frozen",
    "read_sides",
    "split_tasks",
    "survey_pool",
    "survey_traffic",
    "traffic_of",
]
