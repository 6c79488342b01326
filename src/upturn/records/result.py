"""The one object that ``--json`` prints for demos, benchmarks and validations."""

from upturn.records.record import record


@record
class Result:
    """One figure with its uncertainty and, where one is set, its bar."""

    name: str
    value: float | str
    unit: str = ""
    low: float | None = None
    """Lower end of the interval, or of the spread over repetitions; None = not applicable."""
    high: float | None = None
    n: int | None = None
    bar: str | None = None
    """The bar in words, ``>= 0.85``; None = none is set."""
    holds: bool | None = None
    """True when the value meets its bar; None = no bar."""
