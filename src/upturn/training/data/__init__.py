"""From trajectories to training rows: collecting, selecting, pairing.

Here: groups of rollouts and dynamic sampling, curricula, selection of successes, preference pairs, transitions, and
which stored trajectories can be trained on. Not here: the row itself (``training.row``) and advantages
(``advantages``). Start with ``collection`` for fresh rollouts and ``usability`` for stored ones.
"""

from typing import TYPE_CHECKING

from upturn.lazy_names import lazy_names
from upturn.training.data.collection import (
    Collect,
    CollectedGroups,
    Collector,
    ComparedGroup,
    Refill,
    StatefulCollect,
    attach_collect,
    check_groups,
)
from upturn.training.data.curriculum import Curriculum, Portion
from upturn.training.data.curriculum_collect import CurriculumCollect, SampleRequest
from upturn.training.data.hinted_groups import CollectHinted, HintedGroup, select_hinted
from upturn.training.data.pair_mining import ActionValues, MinedPairs, mine_pairs
from upturn.training.data.pair_row import PairRows, add_reference, pair_rows, token_count
from upturn.training.data.selection import Selection, check_top, select
from upturn.training.data.transition import (
    Transition,
    TransitionExclusion,
    cap_common_outputs,
    check_unseen,
    extract_transitions,
    filter_by_tools,
    most_common_outputs,
    observation_rows,
    transitions_digest,
)
from upturn.training.data.usability import (
    EXCLUSION_REASONS,
    ExclusionReason,
    Freshness,
    exclusion_reason,
    group_trajectories,
)

if TYPE_CHECKING:
    from upturn.training.data.async_rollouts import AheadCollect
else:
    __getattr__ = lazy_names(__name__, {"AheadCollect": "async_rollouts"})

__all__ = [
    "EXCLUSION_REASONS",
    "ActionValues",
    "AheadCollect",
    "Collect",
    "CollectHinted",
    "CollectedGroups",
    "Collector",
    "ComparedGroup",
    "Curriculum",
    "CurriculumCollect",
    "ExclusionReason",
    "Freshness",
    "HintedGroup",
    "MinedPairs",
    "PairRows",
    "Portion",
    "Refill",
    "SampleRequest",
    "Selection",
    "StatefulCollect",
    "Transition",
    "TransitionExclusion",
    "add_reference",
    "attach_collect",
    "cap_common_outputs",
    "check_groups",
    "check_top",
    "check_unseen",
    "exclusion_reason",
    "extract_transitions",
    "filter_by_tools",
    "group_trajectories",
    "mine_pairs",
    "most_common_outputs",
    "observation_rows",
    "pair_rows",
    "select",
    "select_hinted",
    "token_count",
    "transitions_digest",
]
