"""The structure of a graph."""

from graphs.walks import neighbours, reachable


def nodes(graph):
    """All nodes, also those that only follow others, ascending."""
    names = set(graph)
    for node in graph:
        names.update(graph[node])
    return sorted(names)


def in_degrees(graph):
    """How many edges lead to each node."""
    degrees = dict.fromkeys(nodes(graph), 0)
    for node in graph:
        for other in graph[node]:
            degrees[other] += 1
    return degrees


def order(graph):
    """The nodes so that every edge leads to a later one, the smallest possible node first; an empty list for a
    graph with a circle."""
    degrees = in_degrees(graph)
    ready = [node for node in nodes(graph) if degrees[node] == 0]
    result = []
    while ready:
        ready.sort()
        node = ready.pop(0)
        result.append(node)
        for other in neighbours(graph, node):
            degrees[other] -= 1
            if degrees[other] == 0:
                ready.append(other)
    return result if len(result) == len(degrees) else []


def sources(graph):
    """The nodes to which no edge leads, ascending."""
    degrees = in_degrees(graph)
    return [node for node in nodes(graph) if degrees[node] == 0]


def is_connected_from(graph, start):
    """Whether every node can be reached from the start."""
    return reachable(graph, start) == nodes(graph)
