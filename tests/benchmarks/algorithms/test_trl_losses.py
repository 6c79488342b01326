"""Gaps to TRL become figures with a bar; TRL itself is asked in a process of its own."""

from importlib.util import find_spec
from typing import Self

import pytest

from benchmarks.algorithms import trl_losses as losses_part
from benchmarks.algorithms.trl_losses import measure_losses
from benchmarks.worker import Made
from upturn.errors import MeasurementError


class _Agrees:
    """A side that agrees in one of two losses."""

    def __init__(self, *_: object, threads: int) -> None:
        assert threads == 1
        self.prepared = Made(
            {"sft": {"loss": 0.0, "gradient": 1e-7}, "dpo": {"loss": 2e-5, "gradient": 1e-5}, "peak_bytes": None}
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """TRL seems to be there."""
    monkeypatch.setattr(losses_part, "require_trl", lambda: None)
    monkeypatch.setattr(losses_part, "Worker", _Agrees)


@pytest.mark.usefixtures("installed")
def test_each_gap_is_held_to_the_bar() -> None:
    results, details = measure_losses()
    assert {each.name: each.holds for each in results} == {
        "losses_sft_loss": True,
        "losses_sft_gradient": True,
        "losses_dpo_loss": False,
        "losses_dpo_gradient": True,
    }
    assert details == {"trl": "1.16.0"}
    assert all(each.bar is None for each in measure_losses(has_bars=False)[0])


@pytest.mark.skipif(find_spec("trl") is not None, reason="TRL is installed")
def test_without_trl_it_says_what_to_install() -> None:
    with pytest.raises(MeasurementError, match=r"no TRL is installed; run: .*requirements-bench") as found:
        measure_losses()
    assert found.value.exit_code == 2


@pytest.mark.slow
@pytest.mark.skipif(find_spec("trl") is None, reason="TRL is not installed: pip install -e '.[bench]'")
def test_trl_gives_the_same() -> None:
    results, _ = measure_losses()
    assert {each.name for each in results} == {
        f"losses_{name}_{what}" for name in ("sft", "dpo", "kto") for what in ("loss", "gradient")
    }
    assert all(each.holds for each in results), results
