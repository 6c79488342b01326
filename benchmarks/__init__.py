"""Measurements against other libraries and earlier versions, and the world that several of them use.

``__main__`` lists the commands, ``commands`` holds one file each; ``errands`` is the world, which tests use too.
Exports nothing, so that importing ``benchmarks.errands`` loads no measurement.
"""
