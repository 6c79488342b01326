"""The functions of formulas. None is volatile: there is no TODAY, NOW or RAND."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal

from upturn.environments.office.formulas.argument import (
    MANY,
    MAX_TEXT,
    Argument,
    Function,
    FunctionError,
    Range,
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
from upturn.environments.office.state import CellError, display_text, parse_value

_PRECISE = Context(prec=700)
"""More digits than any float has before and after the decimal point."""
_MOST_DIGITS = 320


def _mean(numbers: Iterable[float]) -> float:
    terms = tuple(numbers)
    if not terms:
        raise FunctionError(CellError.DIVISION)
    return math.fsum(terms) / len(terms)


def _number_count(argument: Argument) -> int:
    """The count of numbers: those in a range, or 1 if a single value is one; errors are not counted."""
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


def _matching_numbers(arguments: Sequence[Argument]) -> Iterator[float]:
    """Numbers of the third argument, or else of the first, where the first one meets the second."""
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


def _if(arguments: Sequence[Argument]) -> Argument:
    if boolean(arguments[0]):
        return arguments[1]
    return arguments[2] if len(arguments) > 2 else False


def _round(arguments: Sequence[Argument]) -> float:
    """Rounds half away from zero, on the displayed digits: 2.675 to two places is 2.68."""
    value, places = number(arguments[0]), max(-_MOST_DIGITS, min(integer(arguments[1]), _MOST_DIGITS))
    step = Decimal(1).scaleb(-places)
    return float(Decimal(repr(value)).quantize(step, rounding=ROUND_HALF_UP, context=_PRECISE))


def _concat(arguments: Sequence[Argument]) -> str:
    """The joined texts, including those of ranges."""
    parts = []
    for argument in arguments:
        for value in argument.values() if isinstance(argument, Range) else (argument,):
            if isinstance(value, CellError):
                raise FunctionError(value)
            parts.append(display_text(value))
    return check_length("".join(parts))


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


def trim_spaces(untidy: str) -> str:
    """The text without leading, trailing and repeated spaces."""
    return " ".join(filter(None, untidy.split(" ")))


FUNCTIONS: Mapping[str, Function] = {
    "SUM": Function(lambda args: math.fsum(numbers(args)), 1, MANY),
    "AVERAGE": Function(lambda args: _mean(numbers(args)), 1, MANY),
    "MIN": Function(lambda args: min(numbers(args), default=0.0), 1, MANY),
    "MAX": Function(lambda args: max(numbers(args), default=0.0), 1, MANY),
    "COUNT": Function(lambda args: float(sum(map(_number_count, args))), 1, MANY),
    "COUNTA": Function(_count_all, 1, MANY),
    "COUNTIF": Function(_count_if, 2, 2),
    "SUMIF": Function(lambda args: math.fsum(_matching_numbers(args)), 2, 3),
    "AVERAGEIF": Function(lambda args: _mean(_matching_numbers(args)), 2, 3),
    "IF": Function(_if, 2, 3),
    "IFERROR": Function(lambda args: args[isinstance(single_value(args[0]), CellError)], 2, 2),
    "AND": Function(lambda args: all([*booleans(args)]), 1, MANY),
    "OR": Function(lambda args: any([*booleans(args)]), 1, MANY),
    "NOT": Function(lambda args: not boolean(args[0]), 1, 1),
    "ROUND": Function(_round, 2, 2),
    "ABS": Function(lambda args: abs(number(args[0])), 1, 1),
    "CONCAT": Function(_concat, 1, MANY),
    "CONCATENATE": Function(lambda args: check_length("".join(map(text, args))), 1, MANY),
    "LEFT": Function(lambda args: text(args[0])[: _length(args)], 1, 2),
    "RIGHT": Function(_right, 1, 2),
    "MID": Function(_mid, 3, 3),
    "LEN": Function(lambda args: float(len(text(args[0]))), 1, 1),
    "UPPER": Function(lambda args: text(args[0]).upper(), 1, 1),
    "LOWER": Function(lambda args: text(args[0]).lower(), 1, 1),
    "TRIM": Function(lambda args: trim_spaces(text(args[0])), 1, 1),
    **LOOKUPS,
}
"""By name, in capitals."""
