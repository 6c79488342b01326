"""A data point as numbers, and the stratum that it shares with others."""

import hashlib
import json
import struct
from collections.abc import Mapping
from functools import lru_cache
from math import nan
from typing import Any, Final, NamedTuple, Self

from upturn.records import EvaluationVerdict

VERDICTS: Final[tuple[EvaluationVerdict, ...]] = ("missing", "success", "failure")
"""By the number that a point has."""

FORM: Final = "<qqqqdddiiiib"
"""Of the stored bytes, in the order of the fields; little-endian and without gaps."""
_CELL = struct.Struct(FORM)


class Point(NamedTuple):
    """A trajectory with one of its evaluations; records are named by their sequence numbers."""

    trajectory: int
    task: int
    stratum: int
    evaluation: int
    """0 = none is stored."""
    score: float
    """NaN = none."""
    recorded_at: float
    """When the trajectory was stored: UTC, seconds since 1970."""
    seconds: float
    """Wall-clock time of the trajectory."""
    prompt_tokens: int
    written_tokens: int
    turn_count: int
    tool_turns: int
    """Turns with an action that uses a tool."""
    verdict: int
    """Index in ``VERDICTS``."""

    def pack(self) -> bytes:
        """Returns the bytes that are stored."""
        return _CELL.pack(*self)

    @classmethod
    def unpack(cls, packed: bytes) -> Self:
        """Returns the point with these bytes."""
        return cls(*_CELL.unpack(packed))

    def evaluated(self, evaluation: Mapping[str, Any]) -> Self:
        """Returns the trajectory's point with the evaluation of this row."""
        score = evaluation["score"]
        return self._replace(
            evaluation=evaluation["sequence"],
            score=nan if score is None else float(score),
            verdict=VERDICTS.index(evaluation["verdict"]),
        )


class Stratum(NamedTuple):
    """What points have in common; the columns of ``strata``."""

    tenant: str
    family: str
    environment: str
    split: str
    level: int
    agent: str
    agent_version: str
    origin: str
    outcome: str


@lru_cache(maxsize=4096)
def stratum_id(stratum: Stratum) -> int:
    """Returns its id, a hash: writers of one pool need not agree on a counter."""
    return int.from_bytes(hashlib.sha256(json.dumps(stratum).encode()).digest()[:8], "big") >> 1


def stratum_of(trajectory: Mapping[str, Any], task: Any) -> Stratum:
    """Returns the stratum of a trajectory's row and its task's."""
    version = trajectory["agent_version"]
    return Stratum(
        trajectory["tenant"],
        task.family,
        task.environment,
        task.split,
        task.level,
        version.rpartition("@")[0] or version,
        version,
        trajectory["origin"],
        trajectory["outcome"],
    )


def point_of(trajectory: Mapping[str, Any], stratum: int, task: int) -> Point:
    """Returns the point of a trajectory's row without an evaluation; ``task`` is its task's sequence number."""
    return Point(
        trajectory["sequence"],
        task,
        stratum,
        0,
        nan,
        float(trajectory["recorded_at"]),
        float(trajectory["seconds"]),
        trajectory["prompt_tokens"],
        trajectory["written_tokens"],
        trajectory["turn_count"],
        trajectory["tool_turns"],
        VERDICTS.index("missing"),
    )
