"""Counts over texts."""

from textkit.words import split_words


def count_words(text):
    """How often each word occurs."""
    counts = {}
    for word in split_words(text):
        counts[word] = counts.get(word, 0) + 1
    return counts


def most_common(text, number):
    """The ``number`` most frequent words; words that are equally frequent in alphabetical order."""
    counts = count_words(text)
    ordered = sorted(counts, key=lambda word: (-counts[word], word))
    return ordered[:number]


def longest_run(text):
    """The length of the longest run of one character; 0 for an empty text."""
    best = 0
    run = 0
    previous = None
    for letter in text:
        run = run + 1 if letter == previous else 1
        previous = letter
        best = max(best, run)
    return best
