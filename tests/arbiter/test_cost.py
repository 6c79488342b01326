"""The cost of calls."""

import pytest

from upturn.arbiter import cost_usd
from upturn.config import PriceConfig
from upturn.dialects import TokenUsage
from upturn.errors import ConfigError


def test_cost_of_a_call() -> None:
    usage = TokenUsage(input=1_000_000, output=100_000, cached_input=400_000)
    assert cost_usd(usage, PriceConfig(input=2.0, output=10.0, cached_input=0.5)) == pytest.approx(1.2 + 0.2 + 1.0)
    assert cost_usd(usage, PriceConfig(input=2.0, output=10.0)) == pytest.approx(3.0)
    assert cost_usd(usage, PriceConfig(input=2.0, output=0.0, cached_input=0.0)) == pytest.approx(1.2)


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf")])
def test_prices_are_finite_and_at_least_0(value: float) -> None:
    with pytest.raises(ConfigError, match="input"):
        PriceConfig(input=value, output=0.0)
