"""Reports on bookings."""

from ledger.balances import balances, running


def as_money(cents):
    """The amount as text: ``-12.05``."""
    sign = "-" if cents < 0 else ""
    cents = abs(cents)
    return f"{sign}{cents // 100}.{cents % 100:02d}"


def lowest(bookings, account):
    """The lowest balance that the account had after a booking; 0 without bookings."""
    return min(running(bookings, account), default=0)


def table(bookings):
    """A line ``account: amount`` for every account, the largest balance first, equal ones in alphabetical order."""
    sums = balances(bookings)
    ordered = sorted(sums, key=lambda name: (-sums[name], name))
    return [f"{name}: {as_money(sums[name])}" for name in ordered]


def expenses(bookings):
    """The sum of all expenses, as a positive number."""
    return -sum(amount for _, amount in bookings if amount < 0)
