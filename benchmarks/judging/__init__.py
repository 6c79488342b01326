"""Measurements of what grades work: the size of a change.

``mutations`` makes changes of one statement, ``difference`` measures how they are seen, and the time of a pair of
files."""
