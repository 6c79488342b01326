"""``python -m benchmarks update`` with sides that compute nothing: which figures come out, and when it refuses."""

import json
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from benchmarks import against_trl, gpu, iteration, measurement
from benchmarks import library_update as alone
from benchmarks import trl_baseline as rival
from benchmarks.__main__ import app
from benchmarks.update import MEASUREMENTS

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def _fakes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("PYTHONPATH", str(HERE))
    monkeypatch.setattr(measurement, "DENSE_SIDE", "fake_implementations:dense")
    for module in (measurement, against_trl, alone):
        monkeypatch.setattr(module, "LIBRARY_SIDE", "fake_implementations:library")
    monkeypatch.setattr(alone, "UTILISATION_SIDE", "fake_implementations:library")
    monkeypatch.setattr(alone, "CURVE_SIDE", "fake_implementations:curve")
    monkeypatch.setattr(alone, "has_bfloat16", lambda: True)
    for module in (against_trl, gpu):
        monkeypatch.setattr(module, "TRL_SIDE", "fake_implementations:trl")
    monkeypatch.setattr(gpu, "UTILISATION_SIDE", "fake_implementations:library")
    monkeypatch.setattr(gpu, "find_device", lambda: None)
    monkeypatch.setattr(iteration, "LIBRARY_SIDE", "fake_implementations:practising")
    monkeypatch.setattr(iteration, "TRL_SIDE", "fake_implementations:practising")
    monkeypatch.setattr(rival, "version", lambda _: rival.TRL_VERSION)
    yield


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["update", "--threads", "1", "--json", *arguments])


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
    assert found["command"] == "benchmarks update"
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


def test_without_a_gpu_its_row_says_so_and_asks_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(_: str) -> str:
        raise PackageNotFoundError

    monkeypatch.setattr(rival, "version", version)
    result = run("--only", "gpu")
    assert result.exit_code == 0, result.stderr
    assert figures(result)["gpu_speedup_vs_trl_default"]["value"] == "not measured: no CUDA device"


def test_with_a_gpu_its_row_has_speed_memory_utilisation_and_the_devices_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gpu, "find_device", lambda: "cuda")
    result = run("--reps", "2", "--only", "gpu")
    assert result.exit_code == 0, result.stderr
    found, details = figures(result), printed(result)["gpu"]
    speed = found["gpu_speedup_vs_trl_default"]
    assert (speed["value"], speed["bar"], speed["holds"]) == (
        20.0,
        ">= 3",
        True,
    )  # TRL 10 s, bfloat16 half a second
    assert found["gpu_memory_vs_trl_default"]["value"] == 0.125  # of the 8 GB that eight rows at once take
    assert found["gpu_gradient_distance_vs_trl"]["value"] == 0.0
    assert found["gpu_mean_logprob_gap"]["value"] == 0.01
    share = found["gpu_utilisation"]["value"]
    assert share == pytest.approx(details["flops"] / 0.5 / 2e14)
    assert found["gpu_utilisation_of_nameplate"]["value"] == pytest.approx(share * 2e14 / 989e12)
    assert details["device"] == "NVIDIA H200"
    assert (details["prompt_tokens"], details["attempts"], details["vocabulary"]) == (4_000, 8, 151_936)
    assert (details["width"], details["layers"]) == (896, 24)


def test_on_a_gpu_trl_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "find_device", lambda: "cuda")
    monkeypatch.setattr(rival, "version", lambda _: "1.15.0")
    result = run("--quick", "--only", "gpu")
    assert result.exit_code == 2
    assert "TRL 1.15.0 is installed" in printed(result)["error"]["message"]


def test_on_a_gpu_more_than_rounding_is_told_and_nothing_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "find_device", lambda: "cuda")
    monkeypatch.setenv("FAKE_GAP", "0.04")
    assert run("--quick", "--reps", "1", "--only", "gpu").exit_code == 0
    monkeypatch.setenv("FAKE_GAP", "0.25")
    result = run("--quick", "--only", "gpu")
    assert result.exit_code == 1
    assert "trl and dense do not compute the same update" in printed(result)["error"]["message"]
    assert printed(result)["results"] == []
