"""Pre-training of the shipped model from scratch: tokenizer, schedule and demonstrations.

A ``Recipe`` describes one model; ``build.pretrain`` runs its phases, each step a pure function of its number. Not
here: the trainer (``optimisation``), evaluation and the model card (``upturn.loop``). Start with ``recipe``, then
``office_recipe`` (the schedule of ``nano``) and ``office_demonstrations``.
"""

from upturn.training.pretraining.build import new_model, pretrain
from upturn.training.pretraining.demonstration import PRETRAINING_STREAM, Demonstration, Step, demonstrate
from upturn.training.pretraining.office_recipe import OFFICE
from upturn.training.pretraining.recipe import Phase, Recipe
from upturn.training.pretraining.recipes import RECIPES, find_recipe
from upturn.training.pretraining.tokenizer import demonstration_texts, new_tokenizer

__all__ = [
    "OFFICE",
    "PRETRAINING_STREAM",
    "RECIPES",
    "Demonstration",
    "Phase",
    "Recipe",
    "Step",
    "demonstrate",
    "demonstration_texts",
    "find_recipe",
    "new_model",
    "new_tokenizer",
    "pretrain",
]
