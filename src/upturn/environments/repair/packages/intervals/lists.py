"""Lists of intervals."""

from intervals.pairs import length


def merge(intervals):
    """Disjoint intervals with the same numbers, ascending; intervals that touch become one, empty ones vanish."""
    merged = []
    for start, stop in sorted(intervals):
        if stop <= start:
            continue
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], stop))
        else:
            merged.append((start, stop))
    return merged


def total(intervals):
    """How many numbers lie in at least one of the intervals."""
    return sum(length(interval) for interval in merge(intervals))


def gaps(intervals, start, stop):
    """The parts of ``(start, stop)`` that no interval covers, ascending."""
    free = []
    at = start
    for first, last in merge(intervals):
        if first > at:
            free.append((at, min(first, stop)))
        at = max(at, last)
        if at >= stop:
            break
    if at < stop:
        free.append((at, stop))
    return [gap for gap in free if length(gap) > 0]


def busiest(intervals):
    """The largest number of intervals with a number in common."""
    events = []
    for start, stop in intervals:
        if start < stop:
            events.append((start, 1))
            events.append((stop, -1))
    most = 0
    now = 0
    for _, change in sorted(events):
        now += change
        most = max(most, now)
    return most
