"""How work is judged: rubrics combine reward components, gates decide what counts, costs stay apart."""

from upturn.rewards.gate import verdict_of
from upturn.rewards.rubric import Rubric, efficiency

__all__ = ["Rubric", "efficiency", "verdict_of"]
