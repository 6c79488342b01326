"""Implementations that are compared, each a function that runs in a process of its own as ``module:function``."""

from typing import TYPE_CHECKING

from benchmarks.implementations.update_task import UpdateTask, parse_update_task
from upturn.lazy_names import lazy_names

if TYPE_CHECKING:
    from benchmarks.implementations.iteration_task import IterationTask, NullSink
else:  # it imports an environment, which workers of other tasks need not wait for
    __getattr__ = lazy_names(__name__, {"IterationTask": "iteration_task", "NullSink": "iteration_task"})

__all__ = ["IterationTask", "NullSink", "UpdateTask", "parse_update_task"]
