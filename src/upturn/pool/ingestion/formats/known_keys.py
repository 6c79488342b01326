"""Keys that a format does not know: kept, counted, and refused where they look like a misspelt known one."""

import json
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

from upturn.pool.ingestion.formats.conversation import LineError
from upturn.records import JsonValue

_LIKENESS = 0.8
"""Of ``difflib``; above it a key is taken for a misspelt one, as ``trail`` for ``trial``."""


def unknown_keys(raw: Mapping[str, Any], known: Collection[str]) -> dict[str, JsonValue]:
    """Returns the entries with other keys than ``known``.

    Raises LineError for a key that is like a known one which the object lacks: its value would be lost.
    """
    unknown = {key: value for key, value in raw.items() if key not in known}
    for key in unknown:
        nearest = nearest_key(key, frozenset(known))
        if nearest is not None and nearest not in raw:
            raise LineError(
                f"unknown key {json.dumps(key, ensure_ascii=False)[:80]}: did you mean {nearest!r}? Rename it"
            )
    return unknown


@lru_cache(maxsize=4096)
def nearest_key(key: str, known: frozenset[str]) -> str | None:
    """Returns the known key that this one looks like; None = it looks like none."""
    plain = key.strip().casefold().replace("-", "_").replace(" ", "_")
    return next(iter(get_close_matches(plain, sorted(known), 1, _LIKENESS)), None)
