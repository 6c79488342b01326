"""``python -m benchmarks update`` with implementations that compute nothing: figures, bars and refusals."""

import json
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from benchmarks import against_trl, gpu, iteration, library_update, measurement, trl_baseline
from benchmarks.__main__ import app
from benchmarks.update import CASES

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def _fakes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("PYTHONPATH", str(HERE))
    monkeypatch.setattr(measurement, "DENSE", "fake_implementations:dense")
    for module in (measurement, against_trl, library_update, gpu):
        monkeypatch.setattr(module, "LIBRARY", "fake_implementations:library")
    monkeypatch.setattr(library_update, "UTILISATION", "fake_implementations:library")
    monkeypatch.setattr(library_update, "COPYING", "fake_implementations:copying")
    monkeypatch.setattr(library_update, "has_bfloat16", lambda: True)
    for module in (against_trl, gpu):
        monkeypatch.setattr(module, "TRL", "fake_implementations:trl")
    monkeypatch.setattr(gpu, "UTILISATION", "fake_implementations:library")
    monkeypatch.setattr(gpu, "find_device", lambda: None)
    monkeypatch.setattr(iteration, "LIBRARY", "fake_implementations:iterations")
    monkeypatch.setattr(iteration, "TRL", "fake_implementations:iterations")
    monkeypatch.setattr(trl_baseline, "version", lambda _: trl_baseline.TRL_VERSION)
    yield


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["update", "--threads", "1", "--json", *arguments])


def parsed(result: Result) -> dict[str, Any]:
    printed: dict[str, Any] = json.loads(result.stdout)
    return printed


def figures(result: Result) -> dict[str, Any]:
    return {figure["name"]: figure for figure in parsed(result)["results"]}


@pytest.mark.slow
def test_all_measurements_are_in_one_object(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measurement, "Sizes", lambda: measurement.QUICK)
    result = run("--quick", "--reps", "2")
    assert result.exit_code == 0, result.stderr
    printed = parsed(result)
    assert printed["command"] == "benchmarks update"
    assert (printed["threads"], printed["repetitions"]) == (1, 2)
    assert set(CASES) <= set(printed)
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
    assert printed["trl-large"]["at_its_best"]["trl_micro_batch"] == 2
    assert printed["bfloat16"]["learning_curves"] == {"float32": [4.0, 0.0], "bfloat16": [4.0, 0.0]}
    assert all(figure["bar"] is None for figure in figures(result).values())


@pytest.mark.slow
def test_bars_of_the_full_sizes_decide_the_exit_code() -> None:
    missed = run("--reps", "1", "--only", "iteration")
    assert missed.exit_code == 1
    assert figures(missed)["iteration_speedup_vs_trl_best"]["bar"] == ">= 3"
    assert figures(missed)["iteration_speedup_vs_trl_best"]["holds"] is False
    held = run("--reps", "1", "--only", "bfloat16")
    assert held.exit_code == 0
    assert figures(held)["bfloat16_speedup_256"]["bar"] is None
    assert figures(held)["bfloat16_speedup_512"]["holds"] is True


def test_implementations_that_differ_are_reported_and_nothing_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_GAP", "0.25")
    result = run("--quick", "--only", "trl-small")
    assert result.exit_code == 1
    assert "gradient of 'w' by 0.25" in parsed(result)["error"]["message"]
    assert parsed(result)["results"] == []


def test_implementations_that_sample_differently_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_REWARD", "0.1")
    result = run("--reps", "5", "--only", "iteration")
    assert result.exit_code == 1
    assert "mean reward 0.5" in parsed(result)["error"]["message"]


def test_allowed_difference_is_five_standard_errors() -> None:
    assert iteration.allowed_difference(200) == pytest.approx(5 * 0.5 * 0.1)


@pytest.mark.parametrize("installed", [None, "1.15.0"])
def test_without_trl_it_reports_the_install_command_before_any_work(
    monkeypatch: pytest.MonkeyPatch, installed: str | None
) -> None:
    def version(_: str) -> str:
        if installed is None:
            raise PackageNotFoundError
        return installed

    monkeypatch.setattr(trl_baseline, "version", version)
    monkeypatch.setattr(measurement, "DENSE", "no_such_module:function")
    result = run("--quick")
    assert result.exit_code == 2
    message = parsed(result)["error"]["message"]
    assert "pip install -r requirements-bench.lock" in message
    assert (f"TRL {installed}" if installed else "no TRL") in message


def test_measurements_that_need_no_trl_run_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(_: str) -> str:
        raise PackageNotFoundError

    monkeypatch.setattr(trl_baseline, "version", version)
    result = run("--quick", "--reps", "1", "--only", "dense", "--only", "groups")
    assert result.exit_code == 0, result.stderr
    assert list(figures(result)) == [
        "gradient_gap_vs_dense",
        "logprob_gap_vs_dense",
        "token_cost_group_2",
        "token_cost_group_4",
        "token_cost_2_over_4",
    ]


def test_processor_without_bfloat16_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library_update, "has_bfloat16", lambda: False)
    result = run("--only", "bfloat16")
    assert result.exit_code == 0
    assert figures(result)["bfloat16_speedup"]["value"].startswith("not measured: this processor")


def test_unknown_measurements_are_refused_with_the_known_ones() -> None:
    result = run("--only", "speed")
    assert result.exit_code == 2
    assert "unknown measurement 'speed'; known: dense, trl-small" in parsed(result)["error"]["message"]


def test_without_a_gpu_its_row_says_so_and_needs_no_trl(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(_: str) -> str:
        raise PackageNotFoundError

    monkeypatch.setattr(trl_baseline, "version", version)
    result = run("--only", "gpu")
    assert result.exit_code == 0, result.stderr
    assert figures(result)["gpu_speedup_vs_trl_default"]["value"] == "not measured: no CUDA device"


def test_gpu_rows_have_speed_memory_utilisation_and_device_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gpu, "find_device", lambda: "cuda")
    result = run("--reps", "2", "--only", "gpu")
    assert result.exit_code == 0, result.stderr
    rows, details = figures(result), parsed(result)["gpu"]
    speed = rows["gpu_speedup_vs_trl_default"]
    assert (speed["value"], speed["bar"], speed["holds"]) == (
        20.0,
        ">= 3",
        True,
    )  # TRL 10 s, bfloat16 half a second
    assert rows["gpu_memory_vs_trl_default"]["value"] == 0.125  # of the 8 GB that eight rows at once take
    assert rows["gpu_speedup_checkpointing"]["value"] == 20.0
    memory = rows["gpu_memory_checkpointing"]
    assert (memory["value"], memory["bar"], memory["holds"]) == (0.0625, "<= 0.5", True)
    assert rows["gpu_gradient_distance_vs_trl"]["value"] == 0.0
    assert rows["gpu_mean_logprob_gap"]["value"] == 0.01
    share = rows["gpu_utilisation"]["value"]
    assert share == pytest.approx(details["flops"] / 0.5 / 2e14)
    assert rows["gpu_utilisation_of_nameplate"]["value"] == pytest.approx(share * 2e14 / 989e12)
    assert details["device"] == "NVIDIA H200"
    assert (details["prompt_tokens"], details["attempts"], details["vocabulary"]) == (4_000, 8, 151_936)
    assert (details["width"], details["layers"]) == (896, 24)


def test_gpu_needs_trl(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "find_device", lambda: "cuda")
    monkeypatch.setattr(trl_baseline, "version", lambda _: "1.15.0")
    result = run("--quick", "--only", "gpu")
    assert result.exit_code == 2
    assert "TRL 1.15.0 is installed" in parsed(result)["error"]["message"]


def test_gpu_gradients_that_differ_are_reported_and_nothing_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "find_device", lambda: "cuda")
    monkeypatch.setenv("FAKE_GAP", "0.04")
    assert run("--quick", "--reps", "1", "--only", "gpu").exit_code == 0
    monkeypatch.setenv("FAKE_GAP", "0.25")
    result = run("--quick", "--only", "gpu")
    assert result.exit_code == 1
    assert "trl and dense do not compute the same update" in parsed(result)["error"]["message"]
    assert parsed(result)["results"] == []
