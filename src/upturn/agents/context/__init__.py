"""How much of a long attempt its agent is shown."""

from upturn.agents.context.arrangement import Form, StepTokens, arranged
from upturn.agents.context.budget import CONTEXT_PARAMETERS, Budget, budget_of, parameters_of
from upturn.agents.context.prompt import (
    COMPACTED,
    BudgetedPrompt,
    GrowingPrompt,
    Prompt,
    Prompts,
    check_room,
    prompts_of,
)
from upturn.agents.context.relevance import Relevance, lexical_relevance
from upturn.agents.context.window import ContextWindow, Count, View, observation_text, shortened

__all__ = [
    "COMPACTED",
    "CONTEXT_PARAMETERS",
    "Budget",
    "BudgetedPrompt",
    "ContextWindow",
    "Count",
    "Form",
    "GrowingPrompt",
    "Prompt",
    "Prompts",
    "Relevance",
    "StepTokens",
    "View",
    "arranged",
    "budget_of",
    "check_room",
    "lexical_relevance",
    "observation_text",
    "parameters_of",
    "prompts_of",
    "shortened",
]
