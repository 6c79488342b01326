"""Balances of accounts."""


def balance(bookings, account):
    """The sum of the account's bookings."""
    return sum(amount for name, amount in bookings if name == account)


def balances(bookings):
    """The balance of every account, accounts in the order of their first booking."""
    result = {}
    for name, amount in bookings:
        result[name] = result.get(name, 0) + amount
    return result


def overdrawn(bookings, limit=0):
    """The accounts whose balance is below minus ``limit``, in alphabetical order."""
    return sorted(name for name, amount in balances(bookings).items() if amount < -limit)


def running(bookings, account):
    """The account's balance after each of its bookings."""
    result = []
    so_far = 0
    for name, amount in bookings:
        if name != account:
            continue
        so_far += amount
        result.append(so_far)
    return result
