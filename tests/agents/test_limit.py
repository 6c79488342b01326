import pytest

from upturn.agents.rollout import limit_reached
from upturn.config import Limits
from upturn.errors import ConfigError


def test_the_first_limit_reached_names_the_outcome() -> None:
    limits = Limits(max_turns=2, max_tokens=10, max_seconds=1.0)
    assert limit_reached(limits, turns=1, tokens=9, seconds=0.9) is None
    assert limit_reached(limits, turns=2, tokens=10, seconds=1.0) == "step_limit"
    assert limit_reached(limits, turns=1, tokens=10, seconds=1.0) == "token_limit"
    assert limit_reached(limits, turns=1, tokens=9, seconds=1.0) == "time_limit"


def test_none_is_unlimited() -> None:
    assert limit_reached(Limits(max_turns=10**9), turns=1, tokens=10**9, seconds=1e9) is None


def test_all_invalid_limits_are_reported_together() -> None:
    with pytest.raises(ConfigError) as caught:
        Limits(max_turns=0, max_tokens=-1, max_action_tokens=0, max_seconds=0.0)
    assert caught.value.problems == (
        "max_turns: input should be greater than or equal to 1, got 0",
        "max_tokens: input should be greater than or equal to 1, got -1",
        "max_action_tokens: input should be greater than or equal to 1, got 0",
        "max_seconds: input should be greater than 0, got 0.0",
    )
