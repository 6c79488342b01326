"""``python -m benchmarks rollout`` with implementations that sample nothing: figures, bars and refusals."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from benchmarks import async_rollouts, rollout
from benchmarks.__main__ import app
from benchmarks.rollout import CASES, quick

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def _fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(HERE))
    monkeypatch.setattr(rollout, "ENGINE", "fake_sampling_implementations:engine")
    monkeypatch.setattr(rollout, "GENERATE", "fake_sampling_implementations:generate")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["rollout", "--threads", "1", "--json", *arguments])


def figures(result: Result) -> dict[str, Any]:
    return {figure["name"]: figure for figure in json.loads(result.stdout)["results"]}


def test_each_baseline_has_a_ratio_with_its_bar_and_the_faster_cache_counts() -> None:
    result = run("--only", "p1000", "--reps", "2")
    assert result.exit_code == 0, result.output
    rows = figures(result)
    ratios = {name: row["value"] for name, row in rows.items() if "speedup" in name}
    assert ratios == {
        "p1000_speedup_vs_whole": 16.0,
        "p1000_speedup_vs_kept": 5.0,
        "p1000_speedup_vs_shared": 3.0,
    }
    assert {name: row["bar"] for name, row in rows.items() if row["bar"]} == {
        "p1000_speedup_vs_whole": ">= 8",
        "p1000_speedup_vs_kept": ">= 2",
    }
    assert rows["p1000_logprob_gap"]["value"] == 2e-6
    details = json.loads(result.stdout)["p1000"]
    assert details["kept"]["way"] == "allocated"
    assert details["written_tokens"] == 64 * 8 * 20
    assert details["whole"]["their_tokens_per_second"] == [640, 640]


def test_missed_bar_sets_the_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollout, "ENGINE", "fake_sampling_implementations:slow_engine")
    result = run("--only", "p60-varied", "--reps", "1")
    assert result.exit_code == 1
    assert figures(result)["p60-varied_speedup_vs_whole"]["holds"] is True
    assert figures(result)["p60-varied_speedup_vs_kept"]["holds"] is False


@pytest.mark.parametrize(
    ("implementation", "message"),
    [("wrong_logprobs", "log-probs differ by 0.003 nats"), ("wrong_tokens", "tokens are 17 standard")],
)
def test_nothing_is_timed_when_tokens_are_not_drawn_from_the_model(
    implementation: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rollout, "GENERATE", f"fake_sampling_implementations:{implementation}")
    result = run("--only", "p60", "--reps", "1")
    assert result.exit_code == 1
    assert message in result.stderr
    assert "nothing was timed" in result.stderr


def test_asynchronous_rollouts_are_compared_with_synchronous_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(async_rollouts, "ASYNC_GRPO", "fake_sampling_implementations:training")
    result = run("--only", "ahead", "--reps", "2")
    assert result.exit_code == 0, result.output
    row = figures(result)["ahead_speedup_vs_in_turn"]
    assert (row["value"], row["bar"]) == (1.5, None)
    assert json.loads(result.stdout)["ahead"]["in_turn_sampling_seconds"] == [2.0, 2.0]


def test_unknown_measurement_is_reported_with_the_known_ones() -> None:
    result = run("--only", "p61")
    assert result.exit_code == 2
    assert "unknown measurement 'p61'; known: p60, p60-varied" in result.stderr


def test_quick_cases_have_no_bars_and_are_small() -> None:
    for case in CASES.values():
        small = quick(case)
        assert not any(small.bars.values())
        assert small.conversations.context * small.conversations.rollouts <= 1_000
        assert (small.conversations.tasks == 1) == (case.conversations.tasks == 1)


def test_the_default_run_compares_on_every_workload_that_has_a_bar() -> None:
    bars = {(name, baseline): bar for name, case in CASES.items() for baseline, bar in case.bars.items() if bar}
    assert bars == {
        ("p60", "whole"): 3.5,
        ("p60", "kept"): 1.2,
        ("p60-varied", "whole"): 3.5,
        ("p60-varied", "kept"): 1.2,
        ("p1000", "whole"): 8.0,
        ("p1000", "kept"): 2.0,
        ("p1000-varied", "whole"): 8.0,
        ("p1000-varied", "kept"): 2.0,
        ("p1000-wide", "kept"): 2.0,
        ("p1000-wide-whole", "whole"): 8.0,
        ("gpu", "whole"): 3.0,
    }
    assert [name for name, case in CASES.items() if not case.is_default] == ["p1000-wide-whole", "gpu", "gpu-kept"]


def test_without_a_gpu_its_case_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollout, "find_device", lambda: None)
    result = run("--only", "gpu", "--quick")
    assert figures(result)["gpu_speedup_vs_whole"]["value"] == "not measured: no CUDA device"


@pytest.mark.slow
def test_the_gpu_case_runs_in_bfloat16_on_its_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # the real implementations
    monkeypatch.setattr(rollout, "find_device", lambda: "cpu")
    rows = figures(run("--only", "gpu", "--quick", "--reps", "1"))
    assert rows["gpu_logprob_gap"]["value"] > 1e-4, "0 would be float32 in disguise"
    assert rows["gpu_speedup_vs_whole"]["value"] > 0
