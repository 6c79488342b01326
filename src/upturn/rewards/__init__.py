"""Grading of results: gates give the verdict, rubrics the score; costs are separate.

Pure functions of records and texts that verifiers and training share, and a ``judge`` that asks a model. Not here:
verifiers (in the folder of their environment), the reward that training uses (``loop.trainers.rl_training``) and
advantages (``training``). Start with ``rubric``, which ``part`` composes. ``measure`` has the components of
``[[rewards.measures]]``, ``calls`` grades tool calls, ``difference`` measures patches, ``hacking`` finds what games
their tests, ``budget`` has length and repetition rewards, ``acceptance`` the rewards of ``upturn train rft``;
``similarity`` compares texts, ``answer`` final answers, ``junit`` reads reports of tests, ``audit`` finds what
moved in training."""

from upturn.rewards.acceptance import acceptance_rate, acceptance_with_format, format_reward, random_acceptance
from upturn.rewards.answer import is_same_answer, normalised_answer
from upturn.rewards.audit import Quality, RewardAudit, audit_rewards
from upturn.rewards.budget import cosine_length, lcpo_exact, lcpo_max, repetition, soft_overlong, within
from upturn.rewards.judge import Judgement, ModelJudge
from upturn.rewards.junit import TestReport, read_junit
from upturn.rewards.measure import MEASURES, measured, written_length
from upturn.rewards.part import Component, Gate, Part, Sequential, Term, WeightedSum, is_complete, score_of
from upturn.rewards.rubric import (
    Rubric,
    configured_rubric,
    configured_score,
    efficiency,
    evaluation_id,
    sum_costs,
    verdict_of,
)
from upturn.rewards.similarity import Similarity, WordSimilarity

__all__ = [
    "MEASURES",
    "Component",
    "Gate",
    "Judgement",
    "ModelJudge",
    "Part",
    "Quality",
    "RewardAudit",
    "Rubric",
    "Sequential",
    "Similarity",
    "Term",
    "TestReport",
    "WeightedSum",
    "WordSimilarity",
    "acceptance_rate",
    "acceptance_with_format",
    "audit_rewards",
    "configured_rubric",
    "configured_score",
    "cosine_length",
    "efficiency",
    "evaluation_id",
    "format_reward",
    "is_complete",
    "is_same_answer",
    "lcpo_exact",
    "lcpo_max",
    "measured",
    "normalised_answer",
    "random_acceptance",
    "read_junit",
    "repetition",
    "score_of",
    "soft_overlong",
    "sum_costs",
    "verdict_of",
    "within",
    "written_length",
]
