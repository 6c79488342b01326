"""Orders ``[(item, count), ...]`` and their prices in cents."""

from stock.pieces import take


def line_total(price, count):
    """The price of so many pieces: from 10 pieces 5 % less, from 50 pieces 10 % less, in whole cents, rounded
    down."""
    percent = 100
    if count >= 50:
        percent = 90
    elif count >= 10:
        percent = 95
    return price * count * percent // 100


def order_total(order, prices, shipping=500, free_from=10000):
    """The price of the order; shipping is free from ``free_from`` cents on. An empty order costs nothing."""
    if not order:
        return 0
    goods = sum(line_total(prices[item], count) for item, count in order)
    return goods if goods >= free_from else goods + shipping


def fill(stock, order):
    """The stock after the whole order has left; the stock as it was where a line cannot be filled."""
    after = stock
    for item, count in order:
        after = take(after, item, count)
        if after is None:
            return stock
    return after


def can_fill(stock, order):
    """The items of the order's lines that cannot be filled, in their order, where lines before have taken theirs."""
    left = stock
    refused = []
    for item, count in order:
        after = take(left, item, count)
        if after is None:
            refused.append(item)
        else:
            left = after
    return refused
