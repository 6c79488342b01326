"""Gaps to TRL become figures with a bar; TRL itself runs in a process of its own."""

from importlib.util import find_spec
from typing import Self

import pytest

from benchmarks.algorithms import trl_losses
from benchmarks.algorithms.trl_losses import measure_losses
from benchmarks.worker import Response
from upturn.errors import MeasurementError


class _FakeWorker:
    """A worker whose gap is small in one of two losses."""

    def __init__(self, *_: object, threads: int) -> None:
        assert threads == 1
        self.prepared = Response(
            {"sft": {"loss": 0.0, "gradient": 1e-7}, "dpo": {"loss": 2e-5, "gradient": 1e-5}, "peak_bytes": None}
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """TRL seems to be installed."""
    monkeypatch.setattr(trl_losses, "require_trl", lambda: None)
    monkeypatch.setattr(trl_losses, "Worker", _FakeWorker)


@pytest.mark.usefixtures("installed")
def test_each_gap_has_a_bar() -> None:
    results, details = measure_losses()
    assert {row.name: row.holds for row in results} == {
        "losses_sft_loss": True,
        "losses_sft_gradient": True,
        "losses_dpo_loss": False,
        "losses_dpo_gradient": True,
    }
    assert details == {"trl": "1.16.0"}
    assert all(row.bar is None for row in measure_losses(has_bars=False)[0])


@pytest.mark.skipif(find_spec("trl") is not None, reason="TRL is installed")
def test_without_trl_it_reports_the_install_command() -> None:
    with pytest.raises(MeasurementError, match=r"no TRL is installed; run: .*requirements-bench") as error:
        measure_losses()
    assert error.value.exit_code == 2


@pytest.mark.slow
@pytest.mark.skipif(find_spec("trl") is None, reason="TRL is not installed: pip install -e '.[bench]'")
def test_trl_agrees() -> None:
    results, _ = measure_losses()
    assert {row.name for row in results} == {
        f"losses_{name}_{kind}" for name in ("sft", "dpo", "kto") for kind in ("loss", "gradient")
    }
    assert all(row.holds for row in results), results
