"""Pieces in the store."""


def receive(stock, item, count):
    """The stock after so many pieces have arrived; the given one is not changed."""
    after = dict(stock)
    after[item] = after.get(item, 0) + count
    return after


def take(stock, item, count):
    """The stock after so many pieces have left; None where there are not enough.

    An item with no pieces left is not listed any more.
    """
    have = stock.get(item, 0)
    if have < count:
        return None
    after = dict(stock)
    after[item] = have - count
    if after[item] == 0:
        del after[item]
    return after


def short(stock, minimum):
    """The items of ``minimum`` that have fewer pieces than it says, with what is missing, in alphabetical order."""
    missing = {}
    for item in sorted(minimum):
        have = stock.get(item, 0)
        if have < minimum[item]:
            missing[item] = minimum[item] - have
    return missing
