import pytest

from upturn.config import AdapterSettings
from upturn.errors import ConfigError


def test_an_invalid_rank_and_scale_are_refused_together() -> None:
    with pytest.raises(ConfigError) as refused:
        AdapterSettings(0, alpha=0)
    assert refused.value.problems == (
        "rank: input should be greater than or equal to 1, got 0",
        "alpha: input should be greater than or equal to 1, got 0",
    )
