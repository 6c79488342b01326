"""Formatting of numbers, never rounded in their favour.

A share is printed as 100 % only if it is exactly 1 and as 0 % only if it is exactly 0; a difference always has a
sign.
"""

import math

from upturn.report.content import Estimate

_SPACE = "\u00a0"
"""Non-breaking, between a number and its unit."""


def percent(share: float) -> str:
    """``0.4133`` → ``41.3 %``."""
    if share in {0, 1}:
        return f"{share * 100:.0f}{_SPACE}%"
    text = f"{abs(share) * 100:.1f}"
    if text == "100.0" and abs(share) < 1:
        return f">{_SPACE}99.9{_SPACE}%"
    if text == "0.0":
        return f"<{_SPACE}0.1{_SPACE}%" if share > 0 else f"0.0{_SPACE}%"
    return f"{'−' if share < 0 else ''}{text}{_SPACE}%"


def points(difference: float) -> str:
    """``0.498`` → ``+49.8 points``: a difference of two shares."""
    return f"{_signed(difference * 100)}{_SPACE}points"


def number(value: float) -> str:
    """Four significant digits with thousands separators; whole numbers are printed in full, infinity as ``∞``."""
    if not math.isfinite(value):
        return "not a number" if math.isnan(value) else "∞" if value > 0 else "−∞"
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}".replace("-", "−")
    magnitude = abs(value)
    if magnitude >= 1000:
        text = f"{value:,.0f}"
    elif magnitude >= 0.001:
        text = f"{value:.4g}"
    else:
        text = f"{value:.2e}"
    return text.replace("-", "−")


def rounded(value: float) -> float:
    """Three significant digits, for labels and sentences."""
    return float(f"{value:.3g}")


def signed(value: float) -> str:
    """``number`` with its sign: ``+1.25``."""
    return number(value) if value < 0 else f"+{number(value)}"


def duration(seconds: float) -> str:
    """``75.2`` → ``1 min 15 s``."""
    if seconds < 59.95:
        return f"{seconds:.1f}{_SPACE}s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}{_SPACE}min {rest}{_SPACE}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}{_SPACE}h {minutes}{_SPACE}min"


def percent_estimate(estimate: Estimate) -> str:
    """``41.3 % (95 % interval 36.6–46.2 %, n = 450)``; without the parts that are None."""
    return percent(estimate.value) + _evidence(estimate, percent_interval(estimate))


def points_estimate(estimate: Estimate) -> str:
    """``+49.8 points (95 % interval +45.1 to +54.4, n = 450)``."""
    return points(estimate.value) + _evidence(estimate, points_interval(estimate))


def number_interval(estimate: Estimate) -> str:
    """``4.3 to 4.95``; empty without an interval."""
    low, high = estimate.low, estimate.high
    return "" if low is None or high is None else f"{number(low)} to {number(high)}"


def percent_interval(estimate: Estimate) -> str:
    """``36.6–46.2 %``; empty without an interval."""
    if estimate.low is None or estimate.high is None:
        return ""
    low, high = percent(estimate.low), percent(estimate.high)
    if low.startswith(("<", ">")) or high.startswith(("<", ">")) or estimate.low < 0:
        return f"{low} to {high}"
    return f"{low.removesuffix(f'{_SPACE}%')}–{high}"


def points_interval(estimate: Estimate) -> str:
    """``+45.1 to +54.4``; empty without an interval."""
    low, high = estimate.low, estimate.high
    return "" if low is None or high is None else f"{_signed(low * 100)} to {_signed(high * 100)}"


def _evidence(estimate: Estimate, interval: str) -> str:
    parts = [f"95{_SPACE}% interval {interval}"] if interval else []
    if estimate.n is not None:
        parts.append(f"n{_SPACE}={_SPACE}{estimate.n:,}")
    return f" ({', '.join(parts)})" if parts else ""


def _signed(value: float) -> str:
    text = f"{abs(value):.1f}"
    if float(text) == 0:
        # An interval end close to zero must not be printed as zero.
        return text if value == 0 else f"{'+' if value > 0 else '−'}{abs(value):.1g}"
    return f"{'+' if value > 0 else '−'}{text}"
