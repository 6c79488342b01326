"""The functions that formulas may use. None of them changes by itself: there is no TODAY, NOW or RAND."""

import math
from collections.abc import Iterator, Mapping, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal

from upturn.environments.office.formulas.argument import (
    MANY,
    MAX_TEXT,
    Argument,
    Function,
    FunctionError,
    boolean,
    booleans,
    check_length,
    integer,
    number,
    numbers,
    range_of,
    single_value,
    text,
)
from upturn.environments.office.formulas.comparison import MAX_CONDITION, Test, parse_condition
from upturn.environments.office.formulas.lookup import LOOKUPS
from upturn.environments.office.formulas.range import Range
from upturn.environments.office.state import CellError, display_text, parse_value

_PRECISE = Context(prec=700)
"""More digits than any float has before and behind the point."""
_MOST_DIGITS = 320


def _sum(arguments: Sequence[Argument]) -> float:
    return math.fsum(numbers(arguments))


def _average(arguments: Sequence[Argument]) -> float:
    return _mean(tuple(numbers(arguments)))


def _mean(numbers: Sequence[float]) -> float:
    if not numbers:
        raise FunctionError(CellError.DIVISION)
    return math.fsum(numbers) / len(numbers)


def _count(arguments: Sequence[Argument]) -> float:
    return float(sum(_is_number(argument) for argument in arguments))


def _is_number(argument: Argument) -> int:
    """How many numbers: of a range its numbers, beside it what reads as one; errors are none."""
    if isinstance(argument, Range):
        return sum(isinstance(value, float) for value in argument.values())
    value = parse_value(argument) if isinstance(argument, str) else argument
    return int(isinstance(value, float) or isinstance(argument, bool))


def _count_all(arguments: Sequence[Argument]) -> float:
    return float(sum(len(tuple(argument.values())) if isinstance(argument, Range) else 1 for argument in arguments))


def _test(argument: Argument) -> Test:
    wanted = single_value(argument)
    if isinstance(wanted, str) and len(wanted) > MAX_CONDITION:
        raise FunctionError(CellError.VALUE)
    return parse_condition(wanted)


def _count_if(arguments: Sequence[Argument]) -> float:
    tested, test = range_of(arguments[0]), _test(arguments[1])
    values = tuple(tested.values())
    empty = tested.area.size - len(values) if test(None) else 0
    return float(sum(map(test, values)) + empty)


def _chosen(arguments: Sequence[Argument]) -> Iterator[float]:
    """Numbers of the third argument where the first one meets the second; the first's own where there are two."""
    tested, test = range_of(arguments[0]), _test(arguments[1])
    if len(arguments) == 2:
        entries = ((entry.value, entry.value) for entry in tested.entries())
    else:
        added = range_of(arguments[2])
        extended = added.part((0, tested.area.height - 1), (0, tested.area.width - 1))
        entries = ((tested.at(entry.row, entry.column), entry.value) for entry in extended.entries())
    for value, amount in entries:
        if test(value):
            if isinstance(amount, CellError):
                raise FunctionError(amount)
            if isinstance(amount, float):
                yield amount


def _sum_if(arguments: Sequence[Argument]) -> float:
    return math.fsum(_chosen(arguments))


def _average_if(arguments: Sequence[Argument]) -> float:
    return _mean(tuple(_chosen(arguments)))


def _if(arguments: Sequence[Argument]) -> Argument:
    if boolean(arguments[0]):
        return arguments[1]
    return arguments[2] if len(arguments) > 2 else False


def _if_error(arguments: Sequence[Argument]) -> Argument:
    value = single_value(arguments[0])
    return arguments[1] if isinstance(value, CellError) else arguments[0]


def _round(arguments: Sequence[Argument]) -> float:
    """Half away from zero, of the digits that are shown: 2.675 to two places is 2.68."""
    value, places = number(arguments[0]), max(-_MOST_DIGITS, min(integer(arguments[1]), _MOST_DIGITS))
    step = Decimal(1).scaleb(-places)
    return float(Decimal(repr(value)).quantize(step, rounding=ROUND_HALF_UP, context=_PRECISE))


def _concat(arguments: Sequence[Argument]) -> str:
    """All texts, of ranges too."""
    parts = []
    for argument in arguments:
        for value in argument.values() if isinstance(argument, Range) else (argument,):
            if isinstance(value, CellError):
                raise FunctionError(value)
            parts.append(display_text(value))
    return check_length("".join(parts))


def _concatenate(arguments: Sequence[Argument]) -> str:
    """All texts, of single cells."""
    return check_length("".join(map(text, arguments)))


def _length(arguments: Sequence[Argument]) -> int:
    """The optional second argument of LEFT and RIGHT."""
    length = min(integer(arguments[1]), MAX_TEXT) if len(arguments) > 1 else 1
    if length < 0:
        raise FunctionError(CellError.VALUE)
    return length


def _right(arguments: Sequence[Argument]) -> str:
    whole_text = text(arguments[0])
    return whole_text[max(0, len(whole_text) - _length(arguments)) :]


def _mid(arguments: Sequence[Argument]) -> str:
    start, length = min(integer(arguments[1]), MAX_TEXT), _length((arguments[0], arguments[2]))
    if start < 1:
        raise FunctionError(CellError.VALUE)
    return text(arguments[0])[start - 1 : start - 1 + length]


def _trim(arguments: Sequence[Argument]) -> str:
    return trim_spaces(text(arguments[0]))


def trim_spaces(untidy: str) -> str:
    """The text without leading, trailing and repeated spaces."""
    return " ".join(filter(None, untidy.split(" ")))


FUNCTIONS: Mapping[str, Function] = {
    "SUM": Function(_sum, 1, MANY),
    "AVERAGE": Function(_average, 1, MANY),
    "MIN": Function(lambda given: min(numbers(given), default=0.0), 1, MANY),
    "MAX": Function(lambda given: max(numbers(given), default=0.0), 1, MANY),
    "COUNT": Function(_count, 1, MANY),
    "COUNTA": Function(_count_all, 1, MANY),
    "COUNTIF": Function(_count_if, 2, 2),
    "SUMIF": Function(_sum_if, 2, 3),
    "AVERAGEIF": Function(_average_if, 2, 3),
    "IF": Function(_if, 2, 3),
    "IFERROR": Function(_if_error, 2, 2),
    "AND": Function(lambda given: all([*booleans(given)]), 1, MANY),
    "OR": Function(lambda given: any([*booleans(given)]), 1, MANY),
    "NOT": Function(lambda given: not boolean(given[0]), 1, 1),
    "ROUND": Function(_round, 2, 2),
    "ABS": Function(lambda given: abs(number(given[0])), 1, 1),
    "CONCAT": Function(_concat, 1, MANY),
    "CONCATENATE": Function(_concatenate, 1, MANY),
    "LEFT": Function(lambda given: text(given[0])[: _length(given)], 1, 2),
    "RIGHT": Function(_right, 1, 2),
    "MID": Function(_mid, 3, 3),
    "LEN": Function(lambda given: float(len(text(given[0]))), 1, 1),
    "UPPER": Function(lambda given: text(given[0]).upper(), 1, 1),
    "LOWER": Function(lambda given: text(given[0]).lower(), 1, 1),
    "TRIM": Function(_trim, 1, 1),
    **LOOKUPS,
}
"""By name, in capitals."""
