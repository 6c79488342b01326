"""The sections ``[prices.NAME]``: what the tokens of models cost."""

from upturn.config.settings import NotNegative, Settings, settings


@settings
class PriceConfig(Settings):
    """What the tokens of a model cost, in USD per million; one ``[prices.NAME]`` table per model. NAME is the
    ``model`` of agents, or what their ``price`` says. Without a table, the cost of a model is unknown, which is not
    0: local models cost nothing only if their price says so. A table may be of a model that no agent has now."""

    input: NotNegative
    """Price of read tokens that were not in the server's cache."""
    output: NotNegative
    """Price of written tokens, reasoning included."""
    cached_input: NotNegative | None = None
    """Price of read tokens that were in the server's cache. Unset = the price of other input."""
    cache_write: NotNegative | None = None
    """Price of read tokens that the server wrote into its cache. Unset = the price of other input. Anthropic takes
    1.25 times as much."""
    cache_write_1h: NotNegative | None = None
    """Price of those that it keeps for an hour instead of five minutes. Unset = ``cache_write``. Anthropic takes
    twice the price of other input."""
