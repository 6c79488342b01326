"""The office's task families: a folder for each app, one for tasks across apps, one for tasks with obstacles.

A module lists its ``FAMILIES``, functions that draw a task and its oracle. Instruction phrasings are in the TOML
file next to the module; ``generation/phrasing.py`` describes the format. Not here: the pieces that families draw
from (``generation``), and which families are in use (``tasks``). Start with ``mail``."""
