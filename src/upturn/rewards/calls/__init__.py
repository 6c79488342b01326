"""Grading of tool calls: against the calls that a task needs, and by what became of their results.

Pure functions of records. Not here: parsing of calls (``models``, ``environments``), and the effect of calls on a
state, which the verifier of an environment grades. Start with ``matching``; ``graded`` gives partial credit,
``use`` says whether a result was used, ``adoption`` counts that over episodes."""

from upturn.rewards.calls.adoption import Adoption, ToolAdoption, adoption_of
from upturn.rewards.calls.gold import GoldCall, read_gold_calls
from upturn.rewards.calls.graded import ToolReward, grade_calls
from upturn.rewards.calls.matching import CallFault, CallsMatch, match_calls
from upturn.rewards.calls.use import CallUse, call_uses, repeated_calls, times_made, use_bonus

__all__ = [
    "Adoption",
    "CallFault",
    "CallUse",
    "CallsMatch",
    "GoldCall",
    "ToolAdoption",
    "ToolReward",
    "adoption_of",
    "call_uses",
    "grade_calls",
    "match_calls",
    "read_gold_calls",
    "repeated_calls",
    "times_made",
    "use_bonus",
]
