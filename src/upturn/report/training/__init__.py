"""The page of one training run: its curves, why it stopped, and which weights are kept.

Here: the content of a run's folder as a record, and its page. Not here: the run itself (``training.runs``). Start
with ``page``, then ``panel``.
"""

from upturn.report.training.content import TrainingReport, read_training
from upturn.report.training.page import PAGE_FILE, render_training, write_training_report
from upturn.report.training.sentence import (
    attention_sentence,
    kept_weights_sentence,
    score_sentence,
    start_text,
    stop_sentences,
)

__all__ = [
    "PAGE_FILE",
    "TrainingReport",
    "attention_sentence",
    "kept_weights_sentence",
    "read_training",
    "render_training",
    "score_sentence",
    "start_text",
    "stop_sentences",
    "write_training_report",
]
