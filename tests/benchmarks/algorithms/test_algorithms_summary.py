"""Courses and few-examples trainings as figures, and as pictures."""

from pathlib import Path

import pytest

from benchmarks.algorithms.errands_comparison import AFTER, Course
from benchmarks.algorithms.plots import save_pictures
from benchmarks.algorithms.rft_comparison import Examined, RftFindings
from benchmarks.algorithms.summary import courses_details, courses_results, rft_details


def _course(*outcomes: float, world: int = 0, start: float = 0.25) -> Course:
    mean = sum(outcomes) / len(outcomes)
    return Course(((0, start), (60, 0.5), (120, mean)), outcomes, world)


COURSES = {
    "grpo": [_course(1, 0, 0, 0), _course(1, 1, 0, 0)],
    f"grpo{AFTER}": [_course(1, 1, 1, 0, world=40), _course(1, 1, 1, 0, world=50)],
}
RFT = RftFindings(
    Examined((0.0, 0.0, 1.0, 1.0), 0),
    {
        "true": {
            10: [Examined((1.0, 1.0, 1.0, 1.0), 300), Examined((1.0, 0.0, 1.0, 1.0), 320)],
            30: [Examined((1.0, 1.0, 1.0, 1.0), 310)] * 2,
        },
        "random": {
            10: [Examined((0.0, 0.0, 1.0, 1.0), 300)] * 2,
            30: [Examined((0.0, 0.0, 1.0, 0.0), 300)] * 2,
        },
    },
)


def test_success_and_gain_are_means_over_seeds_and_tasks() -> None:
    found = {each.name: each for each in courses_results(COURSES)}
    assert list(found) == [
        "errands_success_start",
        "errands_success_grpo",
        "errands_success_grpo_after_world_model",
        "errands_mean_grpo",
        "errands_mean_grpo_after_world_model",
        "errands_world_model_gain_grpo",
    ]
    # on the way: (0.375 · 60 + 0.375 · 60) / 120 and (0.375 · 60 + 0.5 · 60) / 120; (0.375 + 0.625) / 2 twice
    assert [each.value for each in found.values()] == [0.25, 0.375, 0.75, 0.40625, 0.5, 0.375]
    assert (found["errands_mean_grpo"].low, found["errands_mean_grpo"].high) == (0.375, 0.4375)
    gain = found["errands_world_model_gain_grpo"]
    assert gain.low is not None and gain.high is not None
    assert 0 <= gain.low < 0.375 < gain.high <= 1
    assert gain.n == 2
    assert all(each.bar is None for each in found.values())


def test_courses_are_told_point_by_point() -> None:
    details = courses_details(COURSES)
    assert details["grpo"] == {
        "curves": [[[0, 0.25], [60, 0.5], [120, 0.25]], [[0, 0.25], [60, 0.5], [120, 0.5]]],
        "world_tokens": [0, 0],
    }
    after = details[f"grpo{AFTER}"]
    assert isinstance(after, dict)
    assert after["world_tokens"] == [40, 50]


def test_the_true_reward_is_compared_with_before_and_with_chance() -> None:
    found = {each.name: each for each in RFT.results()}
    assert {name: each.value for name, each in found.items()} == {
        "rft_success_before": 0.5,
        "rft_gain_true_10": 0.375,
        "rft_gain_true_30": 0.5,
        "rft_gain_random_10": 0.0,
        "rft_gain_random_30": -0.25,
        "rft_over_random_10": 0.375,
        "rft_over_random_30": 0.75,
    }
    assert found["rft_gain_random_10"].low == found["rft_gain_random_10"].high == 0.0
    assert found["rft_over_random_30"].n == 2


def test_each_training_is_told() -> None:
    details = rft_details(RFT)
    assert details["true"] == {
        "10": {"success": [1.0, 0.75], "sampled_tokens": [300, 320]},
        "30": {"success": [1.0, 1.0], "sampled_tokens": [310, 310]},
    }


@pytest.mark.parametrize(
    ("has_courses", "has_rft", "expected"),
    [
        (True, True, ["algorithms-errands.png", "algorithms-examples.png"]),
        (False, True, ["algorithms-examples.png"]),
        (False, False, []),
    ],
)
def test_what_was_measured_is_drawn(tmp_path: Path, has_courses: bool, has_rft: bool, expected: list[str]) -> None:
    paths = save_pictures(COURSES if has_courses else {}, RFT if has_rft else None, tmp_path)
    assert [path.name for path in paths] == expected
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in paths)
