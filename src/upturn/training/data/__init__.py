"""From trajectories to training rows: collecting, selecting, pairing.

Here: groups of rollouts and dynamic sampling, curricula, selection of successes, preference pairs, transitions,
and which stored trajectories can be trained on. Not here: the row itself (``training.row``) and how rewards
become advantages (``advantages``). Start with ``collection`` for fresh rollouts and ``usability`` for stored
ones.
"""

from typing import TYPE_CHECKING

from upturn.lazy_names import lazy_names
from upturn.training.data.collection import (
    Collect,
    Collecting,
    Collection,
    Collector,
    ComparedGroup,
    Refill,
    Refilling,
    StatefulCollect,
    check_group,
    check_ids,
)
from upturn.training.data.curriculum import Curriculum, Portion
from upturn.training.data.curriculum_collect import CurriculumCollect, Sample
from upturn.training.data.hinted_groups import CollectSecond, HintedGroup, learnable
from upturn.training.data.pair_mining import ActionValues, Pairing, pairs_of
from upturn.training.data.pair_row import PairRows, pair_rows, refer, token_count
from upturn.training.data.selection import Selection, refuse_idle_top, select
from upturn.training.data.transition import (
    LeftOut,
    Transition,
    capped,
    most_common,
    observation_rows,
    of_same_tools,
    refuse_seen,
    transitions_digest,
    transitions_of,
)
from upturn.training.data.usability import REASONS, Freshness, Reason, groups_of, why_no_policy

if TYPE_CHECKING:
    from upturn.training.data.async_rollouts import AheadCollect
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "AheadCollect": "async_rollouts",
        },
    )

__all__ = [
    "REASONS",
    "ActionValues",
    "AheadCollect",
    "Collect",
    "CollectSecond",
    "Collecting",
    "Collection",
    "Collector",
    "ComparedGroup",
    "Curriculum",
    "CurriculumCollect",
    "Freshness",
    "HintedGroup",
    "LeftOut",
    "PairRows",
    "Pairing",
    "Portion",
    "Reason",
    "Refill",
    "Refilling",
    "Sample",
    "Selection",
    "StatefulCollect",
    "Transition",
    "capped",
    "check_group",
    "check_ids",
    "groups_of",
    "learnable",
    "most_common",
    "observation_rows",
    "of_same_tools",
    "pair_rows",
    "pairs_of",
    "refer",
    "refuse_idle_top",
    "refuse_seen",
    "select",
    "token_count",
    "transitions_digest",
    "transitions_of",
    "why_no_policy",
]
