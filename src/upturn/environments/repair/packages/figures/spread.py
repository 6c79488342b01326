"""How far the numbers of a list lie apart."""

from figures.centre import mean, median


def variance(numbers):
    """The mean squared distance from the mean."""
    centre = mean(numbers)
    return mean([(number - centre) ** 2 for number in numbers])


def spread(numbers):
    """The distance between the smallest and the largest number; 0 for an empty list."""
    if not numbers:
        return 0
    return max(numbers) - min(numbers)


def outliers(numbers, distance):
    """The numbers that lie further than ``distance`` from the median, in their order."""
    middle = median(numbers)
    return [number for number in numbers if abs(number - middle) > distance]
