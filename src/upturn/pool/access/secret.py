"""The text of an API key: ``up-<id>-<secret>``. The id has 12 hexadecimal digits, the secret 256 random bits.

Only a digest of the whole key is stored. A plain hash is enough, because 256 random bits cannot be guessed, unlike
passwords, and it takes a microsecond, unlike a hash for passwords.
"""

import re
import secrets
from hashlib import blake2b
from typing import NamedTuple

_ID_BYTES = 6
_SECRET_BYTES = 32
_FORM = re.compile(r"up-([0-9a-f]{12})-[A-Za-z0-9_-]{43}")


class NewKey(NamedTuple):
    """A key that was made just now."""

    key: str
    """The secret, for its user alone."""
    id: str
    digest: str

    def __repr__(self) -> str:
        return f"NewKey({self.id!r})"


def make_key() -> NewKey:
    """Returns a random key."""
    identifier = secrets.token_hex(_ID_BYTES)
    key = f"up-{identifier}-{secrets.token_urlsafe(_SECRET_BYTES)}"
    return NewKey(key, identifier, key_digest(key))


def key_id(key: str) -> str:
    """Returns the id in a key; empty = this is no key."""
    form = _FORM.fullmatch(key)
    return form[1] if form else ""


def key_digest(key: str) -> str:
    """Returns the hexadecimal BLAKE2b-256 of a key, or of any text."""
    return blake2b(key.encode("utf-8", "surrogatepass"), digest_size=32).hexdigest()
