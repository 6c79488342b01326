"""Two intervals."""


def length(interval):
    """How many numbers lie in the interval; 0 where it stops before it starts."""
    start, stop = interval
    return max(0, stop - start)


def overlaps(first, second):
    """Whether some number lies in both; an empty interval overlaps nothing."""
    if length(first) == 0 or length(second) == 0:
        return False
    return first[0] < second[1] and second[0] < first[1]


def intersect(first, second):
    """The interval of the numbers that lie in both; None where there are none."""
    start = max(first[0], second[0])
    stop = min(first[1], second[1])
    if start < stop:
        return (start, stop)
    return None
