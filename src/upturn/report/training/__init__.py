"""The page about one training run: its curves, why it stopped, and which weights are kept.

Here: what a run's folder holds, as a record, and the page made from it. Not here: the run itself
(``training.runs``). Start with ``page``, then ``panel``.
"""

from upturn.report.training.content import TrainingReport, read_training
from upturn.report.training.page import PAGE_FILE, render_training, write_training_report
from upturn.report.training.sentence import beginning, ending, keeping, measuring

__all__ = [
    "PAGE_FILE",
    "TrainingReport",
    "beginning",
    "ending",
    "keeping",
    "measuring",
    "read_training",
    "render_training",
    "write_training_report",
]
