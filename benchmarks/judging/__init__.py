"""Measurements of what grades work: the size of a change, tool calls, judges, detectors of reward hacking.

``mutations`` makes changes of one statement, ``difference`` measures how they are seen, and the time of a pair of
files. ``calls`` measures the matcher of calls, ``judges`` the meters and the protocol on a ``scripted_judge``.
``projects`` are small programs with tests, ``hacks`` changes them by the steps in ``data``, ``honest`` makes fixes,
refactorings and features, and ``detection`` counts what the detectors find in both.
``repairs`` times the code-repair environment."""
