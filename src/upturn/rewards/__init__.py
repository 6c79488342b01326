"""Grading of results: gates give the verdict, rubrics the score; costs are separate.

Pure functions of records and texts that verifiers and training share, and a ``judge`` that asks a model. Not here:
verifiers (in the folder of their environment), the reward that training uses (``loop.trainers.rl_training``) and
advantages (``training``). Start with ``rubric``. ``calls`` grades tool calls, ``difference`` measures
patches, ``budget`` has length and repetition penalties, ``acceptance`` the rewards of ``upturn train rft``;
``similarity`` compares texts, ``answer`` final answers, ``junit`` reads reports of tests."""

from upturn.rewards.acceptance import acceptance_rate, acceptance_with_format, format_reward, random_acceptance
from upturn.rewards.answer import is_same_answer, normalised_answer
from upturn.rewards.budget import cosine_length, repetition, soft_overlong
from upturn.rewards.judge import Judgement, ModelJudge
from upturn.rewards.junit import TestReport, read_junit
from upturn.rewards.rubric import Rubric, efficiency, evaluation_id, sum_costs, verdict_of
from upturn.rewards.similarity import Similarity, WordSimilarity

__all__ = [
    "Judgement",
    "ModelJudge",
    "Rubric",
    "Similarity",
    "TestReport",
    "WordSimilarity",
    "acceptance_rate",
    "acceptance_with_format",
    "cosine_length",
    "efficiency",
    "evaluation_id",
    "format_reward",
    "is_same_answer",
    "normalised_answer",
    "random_acceptance",
    "read_junit",
    "repetition",
    "soft_overlong",
    "sum_costs",
    "verdict_of",
]
