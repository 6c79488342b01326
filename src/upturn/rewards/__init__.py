"""Grading of results: gates give the verdict, rubrics the score; costs are separate.

Pure functions of records and texts that verifiers and training share. Not here: verifiers (each is in the room of
its environment) and advantages (``upturn.training``). Start with ``rubric``; ``budget`` holds length and repetition
penalties, ``acceptance`` the reward and controls for few tasks, ``similarity`` compares texts.
"""

from upturn.rewards.acceptance import acceptance_rate, acceptance_with_format, format_reward, random_acceptance
from upturn.rewards.budget import cosine_length, repetition, soft_overlong
from upturn.rewards.rubric import Rubric, efficiency, evaluation_id, sum_costs, verdict_of
from upturn.rewards.similarity import Similarity, WordSimilarity

__all__ = [
    "Rubric",
    "Similarity",
    "WordSimilarity",
    "acceptance_rate",
    "acceptance_with_format",
    "cosine_length",
    "efficiency",
    "evaluation_id",
    "format_reward",
    "random_acceptance",
    "repetition",
    "soft_overlong",
    "sum_costs",
    "verdict_of",
]
