"""What runs in the processes of a comparison; each file is one side, found by ``module:function``."""

from benchmarks.implementations.iteration_task import PracticeTask
from benchmarks.implementations.update_task import UpdateTask

__all__ = ["PracticeTask", "UpdateTask"]
