"""Where a pool is: a file (SQLite), or the URL of a database (PostgreSQL). Passwords never appear in its text."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from upturn.config import is_database_url
from upturn.errors import StoreError

_SCHEMES = ("postgresql", "postgres", "postgresql+psycopg")
_SQLITE = b"SQLite format 3\0"
"""The first bytes of a file of SQLite."""
_SECRETS = ("password", "sslpassword")
"""Parameters of a URL that are never shown."""


@dataclass(frozen=True, slots=True)
class PoolUrl:
    """The URL of a PostgreSQL database."""

    url: URL = field(repr=False)
    """With the password, and SQLAlchemy's name of the driver."""

    def __str__(self) -> str:
        url = self.url.difference_update_query(_SECRETS)
        shown = URL.create("postgresql", url.username, None, url.host, url.port, url.database, url.query)
        return shown.render_as_string()

    @property
    def has_password(self) -> bool:
        """Whether the URL has a password, rather than PGPASSWORD, ~/.pgpass or none."""
        return self.url.password is not None or any(name in self.url.query for name in _SECRETS)


Location: TypeAlias = Path | PoolUrl


def location_of(value: str | Location) -> Location:
    """Returns the place that the text names; raises StoreError for a URL that names no PostgreSQL database."""
    if isinstance(value, PoolUrl):
        return value
    text = str(value)
    if isinstance(value, Path) and text.startswith(tuple(f"{scheme}:/" for scheme in _SCHEMES)):
        raise StoreError("a URL was passed as a path, which loses a slash of it; pass it as text")
    if not is_database_url(text):
        return Path(text)
    scheme = text.partition("://")[0]
    if scheme not in _SCHEMES:
        raise StoreError(f"{scheme + '://…'!r} names no pool; name a file, or postgresql://user@host:port/database")
    try:
        url = make_url(text).set(drivername="postgresql+psycopg")
    except (ArgumentError, ValueError):
        # without the original error, whose text may have the password
        raise StoreError(
            "the URL of the pool cannot be read; write it as postgresql://user@host:port/database, with special "
            "characters as %XX"
        ) from None
    if not url.database:
        raise StoreError(f"{str(PoolUrl(url))!r} names no database; add its name: postgresql://user@host/database")
    return PoolUrl(url)


def names_pool(text: str) -> bool:
    """Whether the text is the URL of a database or the path of a SQLite file."""
    if is_database_url(text):
        return True
    try:
        with Path(text).open("rb") as file:
            return file.read(len(_SQLITE)) == _SQLITE
    except OSError:
        return False
