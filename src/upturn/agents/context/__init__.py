"""Context budgets, which keep the prompts of long rollouts within a number of tokens.

``budget`` holds the settings, ``prompt`` the prompt builders, ``window`` cuts a conversation to the budget, using
``turn_selection`` (which turns stay) and ``relevance`` (how turns are ranked). Not here: rendering text to tokens
(``upturn.models``). Start with ``prompt``.
"""

from upturn.agents.context.budget import CONTEXT_PARAMETERS, Budget, budget_of, parameters_of
from upturn.agents.context.prompt import (
    COMPACTED,
    BudgetedPrompt,
    GrowingPrompt,
    Prompt,
    PromptBuilder,
    check_room,
    prompt_builder,
)
from upturn.agents.context.relevance import Relevance, lexical_relevance
from upturn.agents.context.turn_selection import StepTokens, TurnForm, select_forms
from upturn.agents.context.window import ContextWindow, Count, View, observation_text, shorten

__all__ = [
    "COMPACTED",
    "CONTEXT_PARAMETERS",
    "Budget",
    "BudgetedPrompt",
    "ContextWindow",
    "Count",
    "GrowingPrompt",
    "Prompt",
    "PromptBuilder",
    "Relevance",
    "StepTokens",
    "TurnForm",
    "View",
    "budget_of",
    "check_room",
    "lexical_relevance",
    "observation_text",
    "parameters_of",
    "prompt_builder",
    "select_forms",
    "shorten",
]
