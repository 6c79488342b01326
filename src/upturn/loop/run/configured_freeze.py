"""``routing.frozen``: the switch that stops the router from learning, as the configuration sets it."""

from time import time

from upturn.config import RoutingConfig
from upturn.pool import Pool
from upturn.pool.access import current_freeze, freeze, unfreeze

CONFIGURATION = "configuration"
"""Who turned the switch, in the log of acts."""


def apply_configured_freeze(pool: Pool, routing: RoutingConfig) -> None:
    """Stops learning, or lets a router learn that an earlier configuration had stopped; an operator's act stays."""
    current = current_freeze(pool.engine)
    if routing.frozen and current is None:
        freeze(pool.location, who=CONFIGURATION, why="routing.frozen = true", when=time())
    elif not routing.frozen and current is not None and current.act.who == CONFIGURATION:
        unfreeze(pool.location, who=CONFIGURATION, why="routing.frozen = false", when=time())
