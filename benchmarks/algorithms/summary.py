"""The courses in errands and the few-examples curve as figures, with intervals over seeds and tasks at once."""

from collections.abc import Sequence
from statistics import fmean

import numpy as np

from benchmarks.algorithms.errands_comparison import AFTER, Course, Courses
from benchmarks.algorithms.rft_comparison import RftFindings
from upturn.loop.trainers import over_seeds
from upturn.records import JsonValue, Result


def courses_results(courses: Courses) -> list[Result]:
    """Success of each way, with a world model and without: in the end, and on the way as the mean over all tokens.

    Then what the world model gave. Of means on the way, low and high are the seeds' lowest and highest.
    """
    start = fmean(each.curve[0][1] for seeds in courses.values() for each in seeds)
    results = [Result("errands_success_start", start, "share")]
    for name, seeds in courses.items():
        found = over_seeds(_outcomes(seeds))
        results.append(Result(f"errands_success_{name}", found.mean, "share", found.low, found.high, len(seeds)))
    for name, seeds in courses.items():
        means = [_on_the_way(each) for each in seeds]
        mean = Result(f"errands_mean_{name}", fmean(means), "share", min(means), max(means), len(seeds))
        results.append(mean)
    for name, seeds in courses.items():
        if not name.endswith(AFTER):
            gain = over_seeds(_outcomes(courses[f"{name}{AFTER}"]) - _outcomes(seeds))
            results.append(
                Result(f"errands_world_model_gain_{name}", gain.mean, "share", gain.low, gain.high, len(seeds))
            )
    return results


def _on_the_way(course: Course) -> float:
    """The mean height of the curve, straight between two exams."""
    tokens = [each for each, _ in course.curve]
    success = [each for _, each in course.curve]
    return float(np.trapezoid(success, tokens)) / (tokens[-1] - tokens[0])


def courses_details(courses: Courses) -> dict[str, JsonValue]:
    """By way and seed, the curve as pairs of tokens and success, and the tokens of the world model."""
    return {
        name: {
            "curves": [[[tokens, round(success, 4)] for tokens, success in each.curve] for each in seeds],
            "world_tokens": [each.world_tokens for each in seeds],
        }
        for name, seeds in courses.items()
    }


def rft_details(found: RftFindings) -> dict[str, JsonValue]:
    """By reward and number of examples, success and sampled tokens of each seed."""
    return {
        reward: {
            str(size): {
                "success": [round(fmean(each.outcomes), 4) for each in seeds],
                "sampled_tokens": [each.tokens for each in seeds],
            }
            for size, seeds in sizes.items()
        }
        for reward, sizes in found.after.items()
    }


def _outcomes(seeds: Sequence[Course]) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """``(S, T)``"""
    return np.array([each.outcomes for each in seeds])
