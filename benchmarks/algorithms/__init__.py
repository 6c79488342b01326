"""What each way of learning reaches, on toys with known answers and in errands."""

from typing import TYPE_CHECKING

from upturn.lazy_names import lazy_names

if TYPE_CHECKING:
    from benchmarks.algorithms.bench import PARTS, AlgorithmsBench, check, measure, quick_bench
    from benchmarks.algorithms.plots import save_pictures
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "AlgorithmsBench": "bench",
            "PARTS": "bench",
            "check": "bench",
            "measure": "bench",
            "quick_bench": "bench",
            "save_pictures": "plots",
        },
    )

__all__ = ["PARTS", "AlgorithmsBench", "check", "measure", "quick_bench", "save_pictures"]
