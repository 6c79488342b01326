"""From candidate to service: validation on held-out tasks, the canary and releases.

Here: the validation gate, the canary's rule and state machine, a release's states and their traffic, the statistics
under them, and a simulation of the rule. Not here: serving the canary's tasks (``loop``) and choosing agents
(``arbiter``). Start with ``release``, then ``canary`` and ``rule``.
"""

from upturn.config import CanarySettings, ValidationSettings
from upturn.deployment.canary import Canary
from upturn.deployment.episode import Awaited, Episode, Served, episodes_of, split_settled
from upturn.deployment.interval import (
    RESAMPLES,
    Interval,
    bootstrap_mean,
    clopper_pearson_interval,
    paired_bootstrap,
    wilson_interval,
)
from upturn.deployment.release import (
    History,
    Override,
    RegistryTraffic,
    Traffic,
    apply_traffic,
    candidate_share,
    history_of,
    hold,
    promote,
    release_id,
    release_status,
    resume,
    rollback,
    start,
)
from upturn.deployment.simulation import SCENARIOS, grid, simulation_results
from upturn.deployment.validation import Comparison, Pair, Validation, ValidationVerdict, pairs_of, validate

__all__ = [
    "RESAMPLES",
    "SCENARIOS",
    "Awaited",
    "Canary",
    "CanarySettings",
    "Comparison",
    "Episode",
    "History",
    "Interval",
    "Override",
    "Pair",
    "RegistryTraffic",
    "Served",
    "Traffic",
    "Validation",
    "ValidationSettings",
    "ValidationVerdict",
    "apply_traffic",
    "bootstrap_mean",
    "candidate_share",
    "clopper_pearson_interval",
    "episodes_of",
    "grid",
    "history_of",
    "hold",
    "paired_bootstrap",
    "pairs_of",
    "promote",
    "release_id",
    "release_status",
    "resume",
    "rollback",
    "simulation_results",
    "split_settled",
    "start",
    "validate",
    "wilson_interval",
]
