"""Answers about a tenant's evidence, the same ones on the command line and over HTTP.

An answer is figures and details; what a command prints as JSON is the answer with a description of the command.
Start with ``answer``.
"""

from upturn.pool.answers.answer import Answer, read_moment
from upturn.pool.answers.batch import MOST_POINTS, Contents, batch_answer, batch_details, point_lines
from upturn.pool.answers.logged import log_lines, logged_answer, read_logged
from upturn.pool.answers.quality import quality_answer
from upturn.pool.answers.statistics import statistics_answer

__all__ = [
    "MOST_POINTS",
    "Answer",
    "Contents",
    "batch_answer",
    "batch_details",
    "log_lines",
    "logged_answer",
    "point_lines",
    "quality_answer",
    "read_logged",
    "read_moment",
    "statistics_answer",
]
