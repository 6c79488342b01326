"""Walks through a graph."""


def neighbours(graph, node):
    """The nodes that follow, ascending; none for a node that the graph does not have."""
    return sorted(graph.get(node, []))


def reachable(graph, start):
    """All nodes that can be reached from the start, itself included, ascending."""
    seen = {start}
    waiting = [start]
    while waiting:
        for node in neighbours(graph, waiting.pop()):
            if node not in seen:
                seen.add(node)
                waiting.append(node)
    return sorted(seen)


def distance(graph, start, goal):
    """The fewest steps from the start to the goal; -1 where there is no way."""
    layer = [start]
    seen = {start}
    steps = 0
    while layer:
        if goal in layer:
            return steps
        following = []
        for node in layer:
            for other in neighbours(graph, node):
                if other not in seen:
                    seen.add(other)
                    following.append(other)
        layer = following
        steps += 1
    return -1
