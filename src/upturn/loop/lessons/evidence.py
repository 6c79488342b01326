"""Where lessons that practise nothing learn from: the pool that is configured."""

from upturn.errors import ConfigError
from upturn.loop.context import Context


def needed_pool(context: Context, algorithm: str) -> None:
    """Raises ConfigError where the run has a pool of its own, which is empty."""
    if not context.config.pool.path:
        raise ConfigError(
            [
                f"`upturn train {algorithm}` learns from evidence that is there already, and pool.path is empty: "
                "the run would begin with an empty pool of its own. Set pool.path to the database of an earlier "
                "run, such as runs/<id>/pool.db, or to one that `upturn ingest` filled"
            ]
        )
