from dataclasses import replace

import pytest

from upturn.agents.context import CONTEXT_PARAMETERS, Budget, budget_of, parameters_of
from upturn.errors import ConfigError

BUDGET = Budget(tokens=400, window_turns=8, observation_tokens=100, summary_tokens=20, low_mark=0.6)


def test_a_budget_round_trips_through_agent_parameters() -> None:
    parameters = parameters_of(BUDGET)
    assert parameters == {
        "context_tokens": 400.0,
        "context_window_turns": 8.0,
        "context_observation_tokens": 100.0,
        "context_summary_tokens": 20.0,
        "context_low_mark": 0.6,
    }
    assert tuple(parameters) == CONTEXT_PARAMETERS
    assert budget_of({"temperature": 1.0, **parameters}) == BUDGET
    assert budget_of({"temperature": 1.0}) is None
    assert BUDGET.low_tokens == 240


def test_an_incomplete_budget_is_refused_with_the_missing_names() -> None:
    with pytest.raises(ConfigError) as caught:
        budget_of({"context_tokens": 400.5, "context_low_mark": 0.5})
    assert caught.value.problems == (
        "context_tokens, context_low_mark need context_window_turns, context_observation_tokens, "
        "context_summary_tokens as well",
        "context_tokens must be a whole number, got 400.5",
    )


def test_all_invalid_values_are_reported_together() -> None:
    with pytest.raises(ConfigError) as caught:
        Budget(tokens=100, window_turns=0, observation_tokens=100, summary_tokens=100, low_mark=1.0)
    assert caught.value.problems == (
        "context_window_turns must be at least 1, got 0",
        "context_low_mark must lie between 0 and 1, got 1.0",
        "context_observation_tokens = 100 has no effect with context_tokens = 100, which is not more; lower it",
        "context_summary_tokens = 100 has no effect with context_observation_tokens = 100, which is not more; "
        "lower it",
    )
    with pytest.raises(ConfigError, match="context_low_mark must lie between 0 and 1, got nan"):
        replace(BUDGET, low_mark=float("nan"))
