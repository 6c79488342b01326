"""Measurements outlive their process, and those of other settings are never mixed up."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.credit.estimator import Estimator
from benchmarks.credit.key_door_comparison import KeyDoorSettings
from benchmarks.credit.measurements import Hyperparameters, TrainingRun
from benchmarks.result_cache import FILE, CacheKey, ResultCache
from upturn.errors import MeasurementError
from upturn.training.advantages import AdvantageSettings

RESULT = TrainingRun(123, True, ((0, 0.25), (123, 0.75)))
KEY = CacheKey("practice", "state", 3)


def _fail() -> TrainingRun:
    raise AssertionError("measured again")


def _return(result: TrainingRun) -> Callable[[], TrainingRun]:
    return lambda: result


def test_stored_result_is_not_measured_again(tmp_path: Path) -> None:
    assert ResultCache(tmp_path, KeyDoorSettings()).get(KEY, TrainingRun, _return(RESULT)) == RESULT
    again = ResultCache(tmp_path, KeyDoorSettings())
    assert again.get(KEY, TrainingRun, _fail) == RESULT
    assert again.get(KEY, TrainingRun, _fail) == RESULT


def test_other_settings_seeds_and_names_are_other_measurements(tmp_path: Path) -> None:
    ResultCache(tmp_path, KeyDoorSettings()).get(KEY, TrainingRun, _return(RESULT))
    other = TrainingRun(1, False, ())
    changed = ResultCache(tmp_path, KeyDoorSettings(budget=5))
    assert changed.get(KEY, TrainingRun, _return(other)) == other
    same = ResultCache(tmp_path, KeyDoorSettings())
    assert same.get(KEY._replace(seed=4), TrainingRun, _return(other)) == other
    assert same.get(KEY._replace(name="tree"), TrainingRun, _return(other)) == other
    assert same.get(KEY._replace(options="ab"), TrainingRun, _return(other)) == other
    best = Hyperparameters(0.1, 2, 0, 5.0)
    assert same.get(CacheKey("choice", "state", 3), Hyperparameters, lambda: best) == best
    assert same.get(KEY, TrainingRun, _fail) == RESULT


def test_estimator_with_other_options_is_measured_again() -> None:
    estimator = Estimator("state", AdvantageSettings("state", gamma=0.95))
    key = estimator.key("rank", 3)
    assert (key.part, key.name, key.seed) == ("rank", "state", 3)
    assert replace(estimator).key("rank", 3) == key
    assert replace(estimator, training_continuations=(16,)).key("rank", 3) != key
    assert replace(estimator, settings=AdvantageSettings("state", gamma=0.9)).key("rank", 3) != key


def test_line_cut_off_by_an_interruption_is_measured_again(tmp_path: Path) -> None:
    ResultCache(tmp_path, KeyDoorSettings()).get(KEY, TrainingRun, _return(RESULT))
    with (tmp_path / FILE).open("a") as file:
        file.write('{"settings": "ab')
    again = ResultCache(tmp_path, KeyDoorSettings())
    assert again.get(KEY, TrainingRun, _fail) == RESULT
    other = KEY._replace(seed=4)
    again.get(other, TrainingRun, _return(RESULT))
    assert ResultCache(tmp_path, KeyDoorSettings()).get(other, TrainingRun, _fail) == RESULT


def test_damaged_line_is_reported(tmp_path: Path) -> None:
    ResultCache(tmp_path, KeyDoorSettings()).get(KEY, TrainingRun, _return(RESULT))
    (tmp_path / FILE).write_text("nonsense\n" + (tmp_path / FILE).read_text())
    with pytest.raises(MeasurementError, match=r"line 1 is not a measurement .*; move the file away"):
        ResultCache(tmp_path, KeyDoorSettings())
