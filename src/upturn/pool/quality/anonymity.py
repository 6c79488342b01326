"""k-anonymity of a tenant's anonymised export: how many tasks share each combination of quasi-identifiers.

A quasi-identifier is a field whose value is known to others and may single a person out together with others:
place, age, sex, occupation and the like (``ATTRIBUTES``). Fields are recognised by their names, in the context of
the task, in parameters of actions, in final states and in observations that are JSON. Of each one a task counts
with the first value. A task stands for a person: if a person has several tasks, k is smaller than what is
returned. Not covered: quasi-identifiers in prose, and fields with other names.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from upturn.pool.privacy import Replacer, anonymise, mask
from upturn.pool.reader import Experience
from upturn.records import JsonValue

ATTRIBUTES: Mapping[str, re.Pattern[str]] = {
    name: re.compile(rf"(?:^|_)(?:{names})$")
    for name, names in {
        "postal code": "zip|zip_?code|postal_?code|postcode|plz",
        "place": "city|town|village",
        "region": "province|region|county",
        "country": "country|country_code",
        "birth": "dob|date_of_birth|birth_?date|birthday|birth_?year|year_of_birth",
        "age": "age",
        "sex": "sex|gender",
        "occupation": "occupation|job|job_title|profession",
        "employer": "employer|company",
        "nationality": "nationality|citizenship",
        "marital status": "marital_status",
        "religion": "religion",
        "ethnicity": "ethnicity|race",
    }.items()
}
"""Patterns of the names of fields, in lower case with underscores, by attribute."""

_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_MASK = re.compile(r"<[A-Z_]+>( \d+)?$")

Combination = tuple[tuple[str, str], ...]
"""Attributes with their values, sorted."""


class Anonymity(NamedTuple):
    """How many tasks share their quasi-identifiers."""

    tasks: int
    """Number of tasks with a quasi-identifier."""
    k: int | None
    """Smallest number of tasks with the same combination; None = no task has a quasi-identifier."""
    unique: int
    """Number of tasks whose combination no other task has."""
    rarest: tuple[tuple[Combination, int], ...]
    """Combinations with the number of their tasks, rarest first."""


def anonymity(experiences: Iterable[Experience], *, replacer: Replacer = mask, shown: int = 10) -> Anonymity:
    """Returns the k-anonymity of the data points as they are exported; ``shown``: number of combinations."""
    by_task: dict[str, dict[str, str]] = {}
    for experience in experiences:
        values = by_task.setdefault(experience.task.id, {})
        for attribute, value in _attributes(experience, replacer):
            values.setdefault(attribute, value)
    combinations = Counter(tuple(sorted(values.items())) for values in by_task.values() if values)
    rarest = sorted(combinations.items(), key=lambda item: (item[1], item[0]))
    return Anonymity(
        combinations.total(),
        rarest[0][1] if rarest else None,
        sum(count == 1 for count in combinations.values()),
        tuple(rarest[:shown]),
    )


def _attributes(experience: Experience, replacer: Replacer) -> Iterator[tuple[str, str]]:
    task, trajectory = anonymise(experience.task, replacer), anonymise(experience.trajectory, replacer)
    yield from _of(task.context)
    for turn in trajectory.turns:
        yield from _of(turn.observation.text)
        if turn.action is not None:
            yield from _of(turn.action.parameters)
    yield from _of(trajectory.final_observation.text)
    yield from _of(trajectory.final_state)


def _of(value: JsonValue | Mapping[str, JsonValue], name: str = "") -> Iterator[tuple[str, str]]:
    """Yields the attributes in a JSON value, with their values in lower case; masks are none."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _of(item, key)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for item in value:
            yield from _of(item, name)
    elif isinstance(value, str) and value[:1] + value[-1:] in ("{}", "[]"):
        try:
            yield from _of(json.loads(value))
        except (ValueError, RecursionError):
            return
    elif value is not None and (attribute := _attribute(name)) and not _MASK.match(str(value)):
        yield attribute, str(value).strip().lower()


def _attribute(name: str) -> str | None:
    plain = re.sub(r"\W+", "_", _CAMEL.sub("_", name)).lower()
    return next((attribute for attribute, pattern in ATTRIBUTES.items() if pattern.search(plain)), None)
