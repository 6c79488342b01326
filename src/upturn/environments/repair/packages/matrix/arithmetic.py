"""Sums and products of matrices."""

from matrix.shape import shape, transpose


def multiply(left, right):
    """The product; None where the columns of the left one are not as many as the rows of the right one."""
    if shape(left)[1] != shape(right)[0]:
        return None
    columns = transpose(right)
    return [[sum(a * b for a, b in zip(row, column)) for column in columns] for row in left]


def trace(rows):
    """The sum of the diagonal, which ends where the shorter side ends."""
    return sum(rows[number][number] for number in range(min(shape(rows))))


def row_sums(rows):
    """The sum of each row."""
    return [sum(row) for row in rows]


def is_symmetric(rows):
    """Whether the matrix equals its transpose."""
    height, width = shape(rows)
    if height != width:
        return False
    for y in range(height):
        for x in range(y):
            if rows[y][x] != rows[x][y]:
                return False
    return True


def heaviest_row(rows):
    """The number of the row with the largest sum, the first one of equal ones; -1 without rows."""
    best = -1
    most = 0
    for number, value in enumerate(row_sums(rows)):
        if best < 0 or value > most:
            best = number
            most = value
    return best
