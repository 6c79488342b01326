"""Years and months."""

LENGTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def is_leap(year):
    """Whether the year has a 29 February."""
    if year % 400 == 0:
        return True
    return year % 4 == 0 and year % 100 != 0


def days_in_month(year, month):
    """The number of days of the month, 1 to 12."""
    if month == 2 and is_leap(year):
        return 29
    return LENGTHS[month - 1]


def is_date(year, month, day):
    """Whether there is such a day."""
    if not 1 <= month <= 12:
        return False
    return 1 <= day <= days_in_month(year, month)


def next_month(year, month):
    """The year and month that follow."""
    if month == 12:
        return (year + 1, 1)
    return (year, month + 1)
