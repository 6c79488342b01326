"""An index of texts by their words."""

from lookup.sorted_list import contains


def build_index(texts):
    """The ascending numbers of the texts that have each word; upper and lower case are the same."""
    index = {}
    for number, text in enumerate(texts):
        for word in set(text.lower().split()):
            index.setdefault(word, []).append(number)
    return index


def find_all(texts, query):
    """The numbers of the texts that have every word of the query, ascending; all texts for an empty query."""
    index = build_index(texts)
    matching = list(range(len(texts)))
    for word in query.lower().split():
        places = index.get(word, [])
        matching = [number for number in matching if contains(places, number)]
    return matching


def find_any(texts, query):
    """The numbers of the texts with at least one word of the query: those with most of its words first, then
    ascending."""
    index = build_index(texts)
    hits = {}
    for word in set(query.lower().split()):
        for number in index.get(word, []):
            hits[number] = hits.get(number, 0) + 1
    return sorted(hits, key=lambda number: (-hits[number], number))
