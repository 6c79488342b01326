"""Implementations that are compared, each a function that runs in a process of its own as ``module:function``."""

from benchmarks.implementations.iteration_task import IterationTask, NullSink
from benchmarks.implementations.update_task import UpdateTask, parse_update_task

__all__ = ["IterationTask", "NullSink", "UpdateTask", "parse_update_task"]
