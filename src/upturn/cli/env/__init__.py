"""``upturn env``: list, validate, play and benchmark environments; export and import an office as files.

Not here: the environments and their checks (``upturn.environments``). Start with ``commands``, which has the group.
"""
