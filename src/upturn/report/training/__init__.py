"""The page about one training run: its curves, why it stopped, and which weights came out of it."""

from upturn.report.training.content import TrainingReport, read_training
from upturn.report.training.page import PAGE_FILE, render_training, write_training_report

__all__ = ["PAGE_FILE", "TrainingReport", "read_training", "render_training", "write_training_report"]
