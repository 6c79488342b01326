"""Numbers in the order of time."""

from figures.centre import mean


def moving_mean(numbers, width):
    """The mean of each number and the ``width - 1`` before it, as soon as there are so many."""
    return [mean(numbers[stop - width : stop]) for stop in range(width, len(numbers) + 1)]


def changes(numbers):
    """The difference of each number to the one before."""
    return [after - before for before, after in zip(numbers, numbers[1:])]


def longest_rise(numbers):
    """The length of the longest part in which each number is larger than the one before; 0 for an empty list."""
    best = 0
    length = 0
    previous = None
    for number in numbers:
        if previous is not None and number > previous:
            length += 1
        else:
            length = 1
        previous = number
        best = max(best, length)
    return best


def largest_drop(numbers):
    """The largest fall from a number to a later one; 0 where none is smaller."""
    drop = 0
    peak = None
    for number in numbers:
        if peak is None or number > peak:
            peak = number
        drop = max(drop, peak - number)
    return drop
