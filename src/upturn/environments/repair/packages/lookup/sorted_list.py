"""Sorted lists of numbers."""


def lower_bound(numbers, wanted):
    """The first place whose number is not below ``wanted``; the length where there is none."""
    low = 0
    high = len(numbers)
    while low < high:
        middle = (low + high) // 2
        if numbers[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low


def contains(numbers, wanted):
    """Whether the number is in the list."""
    place = lower_bound(numbers, wanted)
    return place < len(numbers) and numbers[place] == wanted


def count_between(numbers, low, high):
    """How many numbers are at least ``low`` and below ``high``."""
    return max(0, lower_bound(numbers, high) - lower_bound(numbers, low))


def closest(numbers, wanted):
    """The number with the smallest distance, the smaller one of two; None for an empty list."""
    if not numbers:
        return None
    place = lower_bound(numbers, wanted)
    if place == 0:
        return numbers[0]
    if place == len(numbers):
        return numbers[-1]
    below = numbers[place - 1]
    above = numbers[place]
    return below if wanted - below <= above - wanted else above
