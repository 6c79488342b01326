"""Training runs in errands and on few examples as figures and as plots."""

from pathlib import Path

import pytest

from benchmarks.algorithms.errands_comparison import AFTER, ErrandsRun, errands_details, errands_results
from benchmarks.algorithms.plots import save_plots
from benchmarks.algorithms.rft_comparison import RftResults, RftRun


def _run(*outcomes: float, world: int = 0, start: float = 0.25) -> ErrandsRun:
    mean = sum(outcomes) / len(outcomes)
    return ErrandsRun(((0, start), (60, 0.5), (120, mean)), outcomes, world)


RUNS = {
    "grpo": [_run(1, 0, 0, 0), _run(1, 1, 0, 0)],
    f"grpo{AFTER}": [_run(1, 1, 1, 0, world=40), _run(1, 1, 1, 0, world=50)],
}
RFT = RftResults(
    RftRun((0.0, 0.0, 1.0, 1.0), 0),
    {
        "true": {
            10: [RftRun((1.0, 1.0, 1.0, 1.0), 300), RftRun((1.0, 0.0, 1.0, 1.0), 320)],
            30: [RftRun((1.0, 1.0, 1.0, 1.0), 310)] * 2,
        },
        "random": {
            10: [RftRun((0.0, 0.0, 1.0, 1.0), 300)] * 2,
            30: [RftRun((0.0, 0.0, 1.0, 0.0), 300)] * 2,
        },
    },
)


def test_success_and_gain_are_means_over_seeds_and_tasks() -> None:
    rows = {row.name: row for row in errands_results(RUNS)}
    assert list(rows) == [
        "errands_success_start",
        "errands_success_grpo",
        "errands_success_grpo_after_world_model",
        "errands_mean_grpo",
        "errands_mean_grpo_after_world_model",
        "errands_world_model_gain_grpo",
    ]
    # means of the curves: (0.375 · 60 + 0.375 · 60) / 120 and (0.375 · 60 + 0.5 · 60) / 120,
    # then (0.375 + 0.625) / 2 twice
    assert [row.value for row in rows.values()] == [0.25, 0.375, 0.75, 0.40625, 0.5, 0.375]
    assert (rows["errands_mean_grpo"].low, rows["errands_mean_grpo"].high) == (0.375, 0.4375)
    gain = rows["errands_world_model_gain_grpo"]
    assert gain.low is not None and gain.high is not None
    assert 0 <= gain.low < 0.375 < gain.high <= 1
    assert gain.n == 2
    assert all(row.bar is None for row in rows.values())


def test_details_have_all_points_of_the_curves() -> None:
    details = errands_details(RUNS)
    assert details["grpo"] == {
        "curves": [[[0, 0.25], [60, 0.5], [120, 0.25]], [[0, 0.25], [60, 0.5], [120, 0.5]]],
        "world_tokens": [0, 0],
    }
    after = details[f"grpo{AFTER}"]
    assert isinstance(after, dict)
    assert after["world_tokens"] == [40, 50]


def test_true_reward_is_compared_with_before_and_with_the_random_reward() -> None:
    rows = {row.name: row for row in RFT.results()}
    assert {name: row.value for name, row in rows.items()} == {
        "rft_success_before": 0.5,
        "rft_gain_true_10": 0.375,
        "rft_gain_true_30": 0.5,
        "rft_gain_random_10": 0.0,
        "rft_gain_random_30": -0.25,
        "rft_over_random_10": 0.375,
        "rft_over_random_30": 0.75,
    }
    assert rows["rft_gain_random_10"].low == rows["rft_gain_random_10"].high == 0.0
    assert rows["rft_over_random_30"].n == 2


def test_details_have_every_training_run() -> None:
    details = RFT.details()
    assert details["true"] == {
        "10": {"success": [1.0, 0.75], "sampled_tokens": [300, 320]},
        "30": {"success": [1.0, 1.0], "sampled_tokens": [310, 310]},
    }


@pytest.mark.parametrize(
    ("has_runs", "has_rft", "expected"),
    [
        (True, True, ["algorithms-errands.png", "algorithms-examples.png"]),
        (False, True, ["algorithms-examples.png"]),
        (False, False, []),
    ],
)
def test_measured_parts_are_plotted(tmp_path: Path, has_runs: bool, has_rft: bool, expected: list[str]) -> None:
    paths = save_plots(RUNS if has_runs else {}, RFT if has_rft else None, tmp_path)
    assert [path.name for path in paths] == expected
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in paths)
