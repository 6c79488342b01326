"""The result object that ``--json`` prints."""

from upturn.records.record import record


@record
class Result:
    """One figure with its uncertainty and, optionally, the bar that it has to meet."""

    name: str
    value: float | str
    unit: str = ""
    low: float | None = None
    """Lower end of the interval, or of the spread over repetitions; None = not applicable."""
    high: float | None = None
    n: int | None = None
    bar: str | None = None
    """The bar as text, e.g. ``>= 0.85``; None = no bar."""
    holds: bool | None = None
    """Whether the value meets its bar; None = no bar."""
