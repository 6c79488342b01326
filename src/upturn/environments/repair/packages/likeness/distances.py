"""Distances between texts."""

from likeness.common import common_prefix, longest_common


def edits(first, second):
    """The fewest letters to insert, delete or replace to make one text the other."""
    above = list(range(len(second) + 1))
    for number, letter in enumerate(first):
        row = [number + 1]
        for place, other in enumerate(second):
            cost = 0 if letter == other else 1
            row.append(min(above[place] + cost, above[place + 1] + 1, row[place] + 1))
        above = row
    return above[-1]


def differing(first, second):
    """The places at which the texts have other letters; places that only one text has count too."""
    shorter = min(len(first), len(second))
    places = [place for place in range(shorter) if first[place] != second[place]]
    return places + list(range(shorter, max(len(first), len(second))))


def likeness(first, second):
    """Twice the length of what they have in common over both lengths, in percent, rounded down; 100 for two empty
    texts."""
    both = len(first) + len(second)
    if both == 0:
        return 100
    return 200 * longest_common(first, second) // both


def nearest(word, words):
    """The word with the fewest edits; of equal ones the one with the longer common prefix, then the first in
    alphabetical order. None without words."""
    ordered = sorted(words, key=lambda other: (edits(word, other), -len(common_prefix(word, other)), other))
    return ordered[0] if ordered else None
