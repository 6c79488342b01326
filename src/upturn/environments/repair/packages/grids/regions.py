"""Connected parts of a map."""

from grids.cells import around, is_free


def region(grid, start):
    """The cells that can be reached from the start, ascending; none where the start is not free."""
    if not is_free(grid, start):
        return []
    seen = {start}
    waiting = [start]
    while waiting:
        for cell in around(grid, waiting.pop()):
            if cell not in seen:
                seen.add(cell)
                waiting.append(cell)
    return sorted(seen)


def count_regions(grid):
    """The number of connected parts."""
    seen = set()
    count = 0
    for row in range(len(grid)):
        for column in range(len(grid[row])):
            if is_free(grid, (row, column)) and (row, column) not in seen:
                count += 1
                seen.update(region(grid, (row, column)))
    return count


def steps(grid, start, goal):
    """The fewest steps from the start to the goal; -1 where there is no way."""
    if not is_free(grid, start):
        return -1
    distances = {start: 0}
    waiting = [start]
    while waiting:
        cell = waiting.pop(0)
        if cell == goal:
            return distances[cell]
        for other in around(grid, cell):
            if other not in distances:
                distances[other] = distances[cell] + 1
                waiting.append(other)
    return -1
