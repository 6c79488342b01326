"""``upturn bench update`` with sides that compute nothing: which figures come out, and when it refuses."""

import json
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from upturn.bench import against_trl, alone, iteration, measurement, rival
from upturn.bench.update import MEASUREMENTS
from upturn.cli.app import app

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def _fakes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("PYTHONPATH", str(HERE))
    monkeypatch.setattr(measurement, "DENSE_SIDE", "fake_sides:dense")
    for module in (measurement, against_trl, alone):
        monkeypatch.setattr(module, "LIBRARY_SIDE", "fake_sides:library")
    monkeypatch.setattr(alone, "UTILISATION_SIDE", "fake_sides:library")
    monkeypatch.setattr(alone, "CURVE_SIDE", "fake_sides:curve")
    monkeypatch.setattr(alone, "has_bfloat16", lambda: True)
    monkeypatch.setattr(against_trl, "TRL_SIDE", "fake_sides:trl")
    monkeypatch.setattr(iteration, "LIBRARY_SIDE", "fake_sides:practising")
    monkeypatch.setattr(iteration, "TRL_SIDE", "fake_sides:practising")
    monkeypatch.setattr(rival, "version", lambda _: rival.TRL_VERSION)
    yield


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["bench", "update", "--threads", "1", "--json", *arguments])


def printed(result: Result) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def figures(result: Result) -> dict[str, Any]:
    return {figure["name"]: figure for figure in printed(result)["results"]}


def test_every_measurement_in_one_object_when_all_bars_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measurement, "Sizes", lambda: measurement.QUICK)
    result = run("--quick", "--reps", "2")
    assert result.exit_code == 0, result.stderr
    found = printed(result)
    assert found["command"] == "bench update"
    assert (found["threads"], found["repetitions"]) == (1, 2)
    assert set(MEASUREMENTS) <= set(found)
    values = {name: figure["value"] for name, figure in figures(result).items()}
    assert values["speedup_vs_trl_default_256"] == 10.0
    assert values["speedup_vs_trl_best_256"] == 4.0
    assert values["memory_checkpointing_vs_trl_512"] == 0.125  # 0.5 of TRL's 4 GB, four rows at once
    assert values["memory_vs_trl_512"] == 0.25
    assert values["memory_vs_trl_best_512"] == 0.5
    assert values["speedup_unshared_vs_trl_best"] == 4.0
    assert values["iteration_speedup_vs_trl_best"] == 2.0
    assert values["bfloat16_speedup_64"] == 2.0
    assert values["bfloat16_speedup_128"] == 2.0
    assert values["gradient_gap_vs_trl_512"] == 0.0
    assert found["trl-large"]["at_its_best"]["trl_micro_batch"] == 2
    assert found["bfloat16"]["learning_curves"] == {"float32": [4.0, 0.0], "bfloat16": [4.0, 0.0]}
    assert all(figure["bar"] is None for figure in figures(result).values())


def test_bars_of_the_full_sizes_decide_the_exit_code() -> None:
    missed = run("--reps", "1", "--only", "iteration")
    assert missed.exit_code == 1
    assert figures(missed)["iteration_speedup_vs_trl_best"]["bar"] == ">= 3"
    assert figures(missed)["iteration_speedup_vs_trl_best"]["holds"] is False
    held = run("--reps", "1", "--only", "bfloat16")
    assert held.exit_code == 0
    assert figures(held)["bfloat16_speedup_256"]["bar"] is None
    assert figures(held)["bfloat16_speedup_512"]["holds"] is True


def test_sides_that_differ_are_told_by_how_much_and_nothing_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_GAP", "0.25")
    result = run("--quick", "--only", "trl-small")
    assert result.exit_code == 1
    assert "gradient of 'w' by 0.25" in printed(result)["error"]["message"]
    assert printed(result)["results"] == []


def test_sides_that_sample_differently_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_REWARD", "0.1")
    result = run("--reps", "5", "--only", "iteration")
    assert result.exit_code == 1
    assert "mean reward 0.5" in printed(result)["error"]["message"]


def test_allowed_difference_is_five_standard_errors() -> None:
    assert iteration.allowed_difference(200) == pytest.approx(5 * 0.5 * 0.1)


@pytest.mark.parametrize("installed", [None, "1.15.0"])
def test_without_trl_it_says_how_to_install_it_before_any_work(
    monkeypatch: pytest.MonkeyPatch, installed: str | None
) -> None:
    def version(_: str) -> str:
        if installed is None:
            raise PackageNotFoundError
        return installed

    monkeypatch.setattr(rival, "version", version)
    monkeypatch.setattr(measurement, "DENSE_SIDE", "no_such_module:side")
    result = run("--quick")
    assert result.exit_code == 2
    message = printed(result)["error"]["message"]
    assert "pip install -r requirements-bench.lock" in message
    assert (f"TRL {installed}" if installed else "no TRL") in message


def test_what_needs_no_trl_runs_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(_: str) -> str:
        raise PackageNotFoundError

    monkeypatch.setattr(rival, "version", version)
    result = run("--quick", "--reps", "1", "--only", "dense", "--only", "groups")
    assert result.exit_code == 0, result.stderr
    assert list(figures(result)) == [
        "gradient_gap_vs_dense",
        "logprob_gap_vs_dense",
        "token_cost_group_2",
        "token_cost_group_4",
        "token_cost_2_over_4",
    ]


def test_a_processor_without_bfloat16_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alone, "has_bfloat16", lambda: False)
    result = run("--only", "bfloat16")
    assert result.exit_code == 0
    assert figures(result)["bfloat16_speedup"]["value"].startswith("not measured: this processor")


def test_unknown_measurements_are_refused_with_the_known_ones() -> None:
    result = run("--only", "speed")
    assert result.exit_code == 2
    assert "unknown measurement 'speed'; known: dense, trl-small" in printed(result)["error"]["message"]
