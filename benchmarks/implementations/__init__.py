"""Implementations that are compared, each a function that runs in a process of its own as ``module:function``."""

from benchmarks.implementations.iteration_task import IterationTask
from benchmarks.implementations.update_task import UpdateTask

__all__ = ["IterationTask", "UpdateTask"]
