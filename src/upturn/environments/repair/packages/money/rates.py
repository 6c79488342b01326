"""Taxes and interest."""

BRACKETS = ((0, 0), (1000, 10), (5000, 20), (20000, 40))


def percent_of(amount, percent):
    """So many percent of the amount, half a cent is rounded up."""
    return (amount * percent + 50) // 100


def tax(income):
    """The tax: of the part above each bound in BRACKETS, up to the next one, its percentage is paid."""
    total = 0
    for number, (bound, percent) in enumerate(BRACKETS):
        if income <= bound:
            break
        following = BRACKETS[number + 1][0] if number + 1 < len(BRACKETS) else income
        total += percent_of(min(income, following) - bound, percent)
    return total


def compound(amount, percent, years):
    """The amount after so many years with interest, which is added at the end of each year."""
    for _ in range(years):
        amount += percent_of(amount, percent)
    return amount


def years_until(amount, goal, percent, most=100):
    """The years until the amount is at least the goal; ``most`` where it takes longer."""
    years = 0
    while amount < goal and years < most:
        amount += percent_of(amount, percent)
        years += 1
    return years
