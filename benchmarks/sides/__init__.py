"""What runs in the processes of a comparison; each file is one side, found by ``module:function``."""

from benchmarks.sides.practice import PracticeTask
from benchmarks.sides.task import UpdateTask

__all__ = ["PracticeTask", "UpdateTask"]
