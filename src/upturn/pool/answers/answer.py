"""What is answered, and times in questions."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from upturn.records import JsonValue, Result, fields_json


class Answer(NamedTuple):
    """Figures and details."""

    results: Sequence[Result]
    details: Mapping[str, JsonValue]

    @property
    def body(self) -> dict[str, JsonValue]:
        """The answer as a JSON object."""
        listed: list[JsonValue] = [json.loads(fields_json(result)) for result in self.results]
        return {"results": listed, **self.details}


def read_moment(text: str) -> float:
    """Returns seconds since 1970 of an ISO 8601 day or time; without a zone it is UTC. Raises ValueError."""
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError) as exc:
        raise ValueError(f"{text!r:.100} is no day or time, such as 2026-01-31 or 2026-01-31T12:00") from exc
