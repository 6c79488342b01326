"""What settings must satisfy: small tests that give a problem as a sentence, or None. No torch here."""

import math
from collections.abc import Callable

from upturn.errors import ConfigError


def unless(value: float, name: str, allowed: str, is_allowed: Callable[[float], bool]) -> str | None:
    """None when the value is finite and allowed, else what is wrong with it."""
    if math.isfinite(value) and is_allowed(value):
        return None
    return f"{name} must be {allowed}, got {value!r}"


def unless_missing(value: float | None, name: str, allowed: str, is_allowed: Callable[[float], bool]) -> str | None:
    """The same for a setting that may be left out."""
    return None if value is None else unless(value, name, allowed, is_allowed)


def useless(is_useless: bool, setting: str, because: str) -> str | None:
    """The problem of a setting that would do nothing; ``because`` names the other side and the cure."""
    return f"{setting} would do nothing {because}" if is_useless else None


def is_positive(value: float) -> bool:
    """More than 0."""
    return value > 0


def is_not_negative(value: float) -> bool:
    """0 or more."""
    return value >= 0


def is_rate(value: float) -> bool:
    """In [0, 1), as a decay rate."""
    return 0 <= value < 1


def refuse(*problems: str | None) -> None:
    """Raises ConfigError with all problems, if there are any."""
    found = [problem for problem in problems if problem is not None]
    if found:
        raise ConfigError(found)
