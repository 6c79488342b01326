"""How work is judged: rubrics combine reward components, gates decide what counts, costs stay apart."""

from upturn.rewards.budget import cosine_length, repetition, soft_overlong
from upturn.rewards.evaluation import evaluation_id, summed_costs
from upturn.rewards.gate import verdict_of
from upturn.rewards.rubric import Rubric, efficiency

__all__ = [
    "Rubric",
    "cosine_length",
    "efficiency",
    "evaluation_id",
    "repetition",
    "soft_overlong",
    "summed_costs",
    "verdict_of",
]
