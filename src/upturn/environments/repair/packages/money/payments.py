"""Payments."""

from money.rates import percent_of

COINS = (200, 100, 50, 20, 10, 5, 2, 1)


def change(amount):
    """The coins for the amount, the largest first, as few as possible."""
    coins = []
    for coin in COINS:
        count = amount // coin
        coins += [coin] * count
        amount -= coin * count
    return coins


def split(amount, people):
    """Shares that differ by at most a cent and add up to the amount; the larger ones first."""
    share = amount // people
    rest = amount - share * people
    return [share + 1] * rest + [share] * (people - rest)


def schedule(debt, percent, payment, most=24):
    """What is owed after each month: interest is added, then the payment made, at most what is owed.

    It ends when nothing is owed, or after ``most`` months.
    """
    owed = []
    while debt > 0 and len(owed) < most:
        debt += percent_of(debt, percent)
        debt -= min(payment, debt)
        owed.append(debt)
    return owed
