"""Distances between days."""

from days.months import days_in_month, is_leap, next_month

NAMES = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def day_of_year(year, month, day):
    """1 for the first of January."""
    return sum(days_in_month(year, earlier) for earlier in range(1, month)) + day


def day_number(year, month, day):
    """The number of days since 31 December of the year before year 1."""
    before = year - 1
    leaps = before // 4 - before // 100 + before // 400
    return 365 * before + leaps + day_of_year(year, month, day)


def days_between(first, second):
    """How many days the second day is after the first; negative where it is before."""
    return day_number(*second) - day_number(*first)


def weekday(year, month, day):
    """The name of the day of the week."""
    return NAMES[(day_number(year, month, day) - 1) % 7]


def add_days(date, count):
    """The day so many days later; ``count`` is not negative."""
    year, month, day = date
    day += count
    while day > days_in_month(year, month):
        day -= days_in_month(year, month)
        year, month = next_month(year, month)
    return (year, month, day)


def days_left(year, month, day):
    """How many days of the year come after this one."""
    return (366 if is_leap(year) else 365) - day_of_year(year, month, day)
