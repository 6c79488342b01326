"""The calls that a task needs, with every accepted value of every parameter."""

from collections.abc import Mapping
from itertools import product
from math import prod

from upturn.errors import FileFormatError
from upturn.records import JsonValue, record

ABSENT = ""
"""In BFCL's lists: the parameter may be left out."""
_MAX_VARIANTS = 10_000
"""Accepted values of one parameter, after nested lists are multiplied out."""


@record
class GoldCall:
    """One call that a task needs."""

    name: str
    """As ``Action.name``."""
    values: Mapping[str, tuple[JsonValue, ...]]
    """The accepted values by parameter; another parameter is not accepted."""
    optional: tuple[str, ...] = ()
    """Parameters that may be left out."""

    def __post_init__(self) -> None:
        """Raises ValueError for a parameter without a value, and an optional one that has none."""
        empty = [name for name, accepted in self.values.items() if not accepted]
        unknown = [name for name in self.optional if name not in self.values]
        if empty or unknown:
            raise ValueError(
                f"the call {self.name!r} needs accepted values for each parameter; it has none for: "
                f"{', '.join((*empty, *unknown))}"
            )


def read_gold_calls(calls: object) -> tuple[GoldCall, ...]:
    """The calls in BFCL's form: a list of ``{name: {parameter: [accepted values]}}``.

    ``""`` among the values: the parameter may be left out. Objects within the values have lists of accepted values
    in turn. Raises FileFormatError for anything else.
    """
    if not isinstance(calls, list | tuple):
        raise _refusal(calls)
    return tuple(_read_call(call) for call in calls)


def _read_call(call: object) -> GoldCall:
    if not isinstance(call, Mapping) or len(call) != 1:
        raise _refusal(call)
    ((name, parameters),) = call.items()
    if not isinstance(parameters, Mapping) or not all(isinstance(item, list) for item in parameters.values()):
        raise _refusal(call)
    values = {str(key): tuple(_variants(accepted, call)) for key, accepted in parameters.items()}
    optional = tuple(str(key) for key, accepted in parameters.items() if ABSENT in accepted)
    if not all(values.values()):
        raise _refusal(call)
    return GoldCall(str(name), values, optional)


def _variants(accepted: list[JsonValue], call: object) -> list[JsonValue]:
    """The accepted values, where nested objects have one value for each of their names."""
    found = [variant for value in accepted for variant in _expanded(value, call)]
    if len(found) > _MAX_VARIANTS:
        raise _refusal(call, f"has more than {_MAX_VARIANTS:,} combinations of accepted values in one parameter")
    return found


def _expanded(value: JsonValue, call: object) -> list[JsonValue]:
    if isinstance(value, list):
        choices = [_expanded(item, call) for item in value]
        _check_count(choices, call)
        return [list(items) for items in product(*choices)]
    if isinstance(value, dict):
        if not all(isinstance(accepted, list) for accepted in value.values()):
            return [value]
        lists = [_variants(accepted, call) for accepted in value.values() if isinstance(accepted, list)]
        _check_count(lists, call)
        return [
            {name: item for name, item in zip(value, items, strict=True) if item != ABSENT}
            for items in product(*lists)
        ]
    return [value]


def _check_count(choices: list[list[JsonValue]], call: object) -> None:
    if prod(map(len, choices)) > _MAX_VARIANTS:
        raise _refusal(call, f"has more than {_MAX_VARIANTS:,} combinations of accepted values in one parameter")


def _refusal(call: object, problem: str = "is not one") -> FileFormatError:
    return FileFormatError(
        "gold calls must be a list of {name: {parameter: [accepted values]}}, with a value for each parameter; "
        f"{call!r:.200} {problem}"
    )
