"""The recipes of the shipped models, by name."""

from collections.abc import Mapping

from upturn.errors import UnknownNameError
from upturn.training.pretraining.office_recipe import OFFICE
from upturn.training.pretraining.recipe import Recipe

RECIPES: Mapping[str, Recipe] = {recipe.model: recipe for recipe in (OFFICE,)}


def find_recipe(model: str) -> Recipe:
    """Returns the recipe of a shipped model; raises UnknownNameError, which lists the known ones."""
    if model not in RECIPES:
        raise UnknownNameError(f"no recipe for a model {model!r}; known: {', '.join(RECIPES)}")
    return RECIPES[model]
