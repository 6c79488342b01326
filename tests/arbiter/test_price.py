"""Costs of calls."""

import pytest

from upturn.arbiter import Price, Usage, cost_usd


def test_cached_tokens_have_their_price() -> None:
    usage = Usage(input_tokens=1_000_000, output_tokens=100_000, cached_tokens=400_000)
    assert cost_usd(usage, Price(input=2.0, output=10.0, cached_input=0.5)) == pytest.approx(1.2 + 0.2 + 1.0)
    assert cost_usd(usage, Price(input=2.0, output=10.0)) == pytest.approx(3.0)
    assert cost_usd(usage, Price(input=2.0, output=0.0, cached_input=0.0)) == pytest.approx(1.2)


def test_invalid_prices_and_tokens_are_refused() -> None:
    with pytest.raises(ValueError, match="prices must be finite and at least 0"):
        Price(input=-1.0, output=0.0)
    with pytest.raises(ValueError, match="finite"):
        Price(input=float("nan"), output=0.0)
    with pytest.raises(ValueError, match="part of input_tokens"):
        Usage(input_tokens=1, output_tokens=0, cached_tokens=2)
