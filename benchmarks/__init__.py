"""Measurements against other libraries and against ourselves, and the world that several of them take place in.

``__main__`` lists the commands, ``commands`` holds one file each; ``errands`` is the world, which tests use too.
This face exports nothing, so that importing ``benchmarks.errands`` loads no measurement.
"""
