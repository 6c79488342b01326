"""The centre of a list."""


def mean(numbers):
    """The mean; 0 for an empty list."""
    if not numbers:
        return 0
    return sum(numbers) / len(numbers)


def median(numbers):
    """The number in the middle, the mean of the two in the middle; 0 for an empty list."""
    if not numbers:
        return 0
    ordered = sorted(numbers)
    middle = len(ordered) // 2
    if len(ordered) % 2 == 1:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2


def mode(numbers):
    """The most frequent number, the smallest one of several; None for an empty list."""
    best = None
    most = 0
    for number in sorted(set(numbers)):
        count = numbers.count(number)
        if count > most:
            best = number
            most = count
    return best
