"""The settings of a database server that a pool's guarantees depend on."""

from collections.abc import Mapping

from sqlalchemy import text

from upturn.pool.database.backend import backend_of
from upturn.pool.database.location import PoolUrl

_NAMES = ("server_version", "fsync", "full_page_writes", "max_connections")


def server_settings(location: PoolUrl) -> Mapping[str, str]:
    """Returns settings by name; raises StoreError if the server cannot be reached."""
    query = text("SELECT name, setting FROM pg_settings WHERE name = ANY(:names)")
    engine = backend_of(location).reading_engine()
    try:
        with engine.connect() as connection:
            return {row[0]: row[1] for row in connection.execute(query, {"names": list(_NAMES)})}
    finally:
        engine.dispose()
