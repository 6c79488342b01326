"""Times of an office as text, ``2026-03-02 09:30``, which sorts chronologically."""

from datetime import datetime, timedelta
from functools import lru_cache

from upturn.environments.office.state.operation_error import OperationError

_LENGTH = len("2026-03-02 09:30")


def parse_moment(text: str) -> datetime:
    """The time in a text; raises OperationError (``bad_value``) for other texts."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = datetime.min
    if len(text) != _LENGTH or format_moment(at) != text:  # other ISO forms would not sort
        raise OperationError("bad_value", f"moments are written 2026-03-02 09:30, got {text!r}")
    return at


def check_day(text: str) -> str:
    """The text of a day, unchanged; raises OperationError (``bad_value``) for other texts."""
    try:
        return day_of(format_moment(parse_moment(f"{text} 00:00")))
    except OperationError:
        raise OperationError("bad_value", f"days are written 2026-03-02, got {text!r}") from None


def format_moment(at: datetime) -> str:
    """The text of a time, to the minute."""
    return at.isoformat(" ", "minutes")


@lru_cache(maxsize=4_096)
def add_minutes(text: str, *, minutes: float) -> str:
    """The moment this many minutes later, or earlier if negative; raises OperationError (``bad_value``) if out of
    range."""
    try:
        return format_moment(parse_moment(text) + timedelta(minutes=minutes))
    except OverflowError:
        raise OperationError(
            "bad_value",
            f"moments are from {format_moment(datetime.min)} to {format_moment(datetime.max)}, "
            f"got {text} and {minutes:g} minutes",
        ) from None


def minutes_between(start: str, end: str) -> int:
    """Minutes from start to end; negative if the end is earlier."""
    return int((parse_moment(end) - parse_moment(start)).total_seconds() // 60)


def day_of(text: str) -> str:
    """``2026-03-02``."""
    return text[:10]
