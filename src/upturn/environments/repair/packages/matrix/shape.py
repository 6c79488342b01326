"""The shape of matrices."""


def shape(rows):
    """Numbers of rows and of columns; (0, 0) for a matrix without rows."""
    if not rows:
        return (0, 0)
    return (len(rows), len(rows[0]))


def transpose(rows):
    """Rows become columns."""
    height, width = shape(rows)
    return [[rows[y][x] for y in range(height)] for x in range(width)]


def rotate(rows):
    """The matrix turned by a quarter clockwise: the last row becomes the first column."""
    return [list(column) for column in transpose(rows[::-1])]


def border(rows):
    """The numbers at the edge, clockwise from the first one of the first row."""
    height, width = shape(rows)
    if height == 0:
        return []
    if height == 1:
        return list(rows[0])
    if width == 1:
        return [row[0] for row in rows]
    top = rows[0]
    right = [row[width - 1] for row in rows[1:]]
    bottom = rows[height - 1][-2::-1]
    left = [rows[y][0] for y in range(height - 2, 0, -1)]
    return top + right + bottom + left
