"""Gradients in files, compared: by how much, where, and when that is too much."""

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from benchmarks.agreement import Agreement, compare
from upturn.errors import MeasurementError


def saved(path: Path, **tensors: list[float]) -> Path:
    save_file({name: np.array(values, dtype=np.float32) for name, values in tensors.items()}, path)
    return path


def test_the_worst_parameter_counts_by_its_own_largest_entry(tmp_path: Path) -> None:
    reference = saved(tmp_path / "a", large=[1000.0, 1.0], small=[0.01, -0.02])
    other = saved(tmp_path / "b", large=[1001.0, 1.0], small=[0.01, -0.019])
    found = compare(2.0, other, reference_loss=4.0, reference_gradient=reference)
    assert found.parameter == "small"
    assert found.gradient == pytest.approx(0.05, rel=1e-4)  # 0.001 of 0.02; in "large" 1 of 1,000
    assert found.loss == 0.5


def test_equal_gradients_have_no_gap_even_where_they_are_zero(tmp_path: Path) -> None:
    reference = saved(tmp_path / "a", silent=[0.0, 0.0])
    found = compare(1.0, reference, reference_loss=1.0, reference_gradient=reference)
    assert (found.loss, found.gradient, found.whole) == (0.0, 0.0, 0.0)


def test_nan_is_as_far_apart_as_can_be(tmp_path: Path) -> None:
    reference = saved(tmp_path / "a", first=[1.0], second=[1.0])
    other = saved(tmp_path / "b", first=[float("nan")], second=[2.0])
    found = compare(1.0, other, reference_loss=1.0, reference_gradient=reference)
    assert (found.gradient, found.parameter, found.whole) == (float("inf"), "first", float("inf"))


def test_different_parameters_are_refused(tmp_path: Path) -> None:
    with pytest.raises(MeasurementError, match="'even'"):
        compare(
            1.0,
            saved(tmp_path / "a", odd=[1.0]),
            reference_loss=1.0,
            reference_gradient=saved(tmp_path / "b", even=[1.0]),
        )


def test_too_large_a_gap_is_told_in_numbers() -> None:
    Agreement(1e-4, 1e-4, "w", 1.0).check("both")
    with pytest.raises(MeasurementError, match=r"one and two do not .* loss differs by 0\.01 .* 'w' by 5e-05"):
        Agreement(0.01, 5e-5, "w", 0.0).check("one and two")
    with pytest.raises(MeasurementError, match="nothing was timed"):
        Agreement(0.0, float("inf"), "w", 0.0).check("both")


def test_distance_of_the_whole_gradient_is_that_of_one_long_vector(tmp_path: Path) -> None:
    reference = saved(tmp_path / "a", first=[3.0, 0.0], second=[4.0])
    other = saved(tmp_path / "b", first=[3.0, 0.3], second=[3.6])
    found = compare(1.0, other, reference_loss=1.0, reference_gradient=reference)
    assert found.whole == pytest.approx(0.1, rel=1e-6)  # the root of 0.3² + 0.4², of 5


def test_rounding_to_bfloat16_is_judged_by_loss_and_whole_gradient() -> None:
    Agreement(0.05, 0.9, "w", 0.05).check_rounded("both")
    with pytest.raises(MeasurementError, match=r"by 0\.06 of its 2-norm \(bfloat16 explains 0\.05\)"):
        Agreement(0.0, 0.0, "w", 0.06).check_rounded("one and two")
    with pytest.raises(MeasurementError, match=r"one and two do not .* loss differs by 0\.06 of it"):
        Agreement(0.06, 0.0, "w", 0.0).check_rounded("one and two")
    with pytest.raises(MeasurementError, match="nothing was timed"):
        Agreement(0.0, 0.0, "w", float("inf")).check_rounded("both")
