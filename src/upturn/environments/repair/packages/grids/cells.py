"""Cells ``(row, column)`` of a map."""


def is_inside(grid, cell):
    """Whether the map has the cell."""
    row, column = cell
    return 0 <= row < len(grid) and 0 <= column < len(grid[row])


def is_free(grid, cell):
    """Whether the cell is inside and no wall."""
    return is_inside(grid, cell) and grid[cell[0]][cell[1]] != "#"


def around(grid, cell):
    """The free cells above, left, right and below, in this order."""
    row, column = cell
    near = [(row - 1, column), (row, column - 1), (row, column + 1), (row + 1, column)]
    return [other for other in near if is_free(grid, other)]


def count_walls(grid, cell):
    """How many of the eight cells around are walls; cells outside are none."""
    row, column = cell
    walls = 0
    for y in range(row - 1, row + 2):
        for x in range(column - 1, column + 2):
            if (y, x) != cell and is_inside(grid, (y, x)) and grid[y][x] == "#":
                walls += 1
    return walls
