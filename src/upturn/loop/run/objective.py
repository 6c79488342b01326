"""The configured objective of routing."""

from collections.abc import Callable

from upturn.arbiter import AgentRegistry, Learner, Objective
from upturn.config import Config, ObjectiveConfig, PriceConfig
from upturn.errors import UnknownNameError


def objective_of(config: Config, registry: AgentRegistry, learner: Learner) -> Objective | None:
    """Returns the objective, whose forecasts follow what the learner learns, before it starts.

    None = the configuration has neither prices nor weights: there is nothing to forecast.
    """
    weights = config.routing.objective
    if not config.prices and weights == ObjectiveConfig():
        return None
    return Objective(weights, learner.count_consumption(), price_in_service(config, registry))


def price_in_service(config: Config, registry: AgentRegistry) -> Callable[[str], PriceConfig | None]:
    """Returns the price of a version's tokens by its id; None = unknown, or the version is not in service."""

    def price(version_id: str) -> PriceConfig | None:
        agent = version_id.rpartition("@")[0]
        try:
            served = registry.served(agent)
        except UnknownNameError:
            return None
        for version in (served.incumbent, served.candidate):
            if version is not None and version.id == version_id:
                return config.price_of(agent, version.model_name)
        return None

    return price
