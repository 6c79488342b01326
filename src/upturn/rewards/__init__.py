"""How work is judged: rubrics combine reward components, gates decide what counts, costs stay apart."""

from upturn.rewards.acceptance import acceptance_rate, accepted_and_formed, random_acceptance, well_formed
from upturn.rewards.budget import cosine_length, repetition, soft_overlong
from upturn.rewards.evaluation import evaluation_id, summed_costs
from upturn.rewards.gate import verdict_of
from upturn.rewards.rubric import Rubric, efficiency
from upturn.rewards.similarity import Similarity, WordSimilarity

__all__ = [
    "Rubric",
    "Similarity",
    "WordSimilarity",
    "acceptance_rate",
    "accepted_and_formed",
    "cosine_length",
    "efficiency",
    "evaluation_id",
    "random_acceptance",
    "repetition",
    "soft_overlong",
    "summed_costs",
    "verdict_of",
    "well_formed",
]
