"""Distances of gradients in files, and their limits."""

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from benchmarks.agreement import Agreement, compare
from upturn.errors import MeasurementError


def save(path: Path, **tensors: list[float]) -> Path:
    save_file({name: np.array(values, dtype=np.float32) for name, values in tensors.items()}, path)
    return path


def test_worst_parameter_counts_relative_to_its_largest_entry(tmp_path: Path) -> None:
    reference = save(tmp_path / "a", large=[1000.0, 1.0], small=[0.01, -0.02])
    other = save(tmp_path / "b", large=[1001.0, 1.0], small=[0.01, -0.019])
    agreement = compare(2.0, other, reference_loss=4.0, reference_gradient=reference)
    assert agreement.parameter == "small"
    assert agreement.gradient == pytest.approx(0.05, rel=1e-4)  # 0.001 of 0.02; in "large" 1 of 1,000
    assert agreement.loss == 0.5


def test_equal_gradients_have_no_gap_even_if_zero(tmp_path: Path) -> None:
    reference = save(tmp_path / "a", silent=[0.0, 0.0])
    agreement = compare(1.0, reference, reference_loss=1.0, reference_gradient=reference)
    assert (agreement.loss, agreement.gradient, agreement.whole) == (0.0, 0.0, 0.0)


def test_nan_is_an_infinite_distance(tmp_path: Path) -> None:
    reference = save(tmp_path / "a", first=[1.0], second=[1.0])
    other = save(tmp_path / "b", first=[float("nan")], second=[2.0])
    agreement = compare(1.0, other, reference_loss=1.0, reference_gradient=reference)
    assert (agreement.gradient, agreement.parameter, agreement.whole) == (float("inf"), "first", float("inf"))


def test_different_parameters_are_refused(tmp_path: Path) -> None:
    with pytest.raises(MeasurementError, match="'even'"):
        compare(
            1.0,
            save(tmp_path / "a", odd=[1.0]),
            reference_loss=1.0,
            reference_gradient=save(tmp_path / "b", even=[1.0]),
        )


def test_too_large_a_gap_is_reported_in_numbers() -> None:
    Agreement(1e-4, 1e-4, "w", 1.0).check("both")
    with pytest.raises(MeasurementError, match=r"one and two do not .* loss differs by 0\.01 .* 'w' by 5e-05"):
        Agreement(0.01, 5e-5, "w", 0.0).check("one and two")
    with pytest.raises(MeasurementError, match="nothing was timed"):
        Agreement(0.0, float("inf"), "w", 0.0).check("both")


def test_distance_of_the_whole_gradient_is_that_of_one_long_vector(tmp_path: Path) -> None:
    reference = save(tmp_path / "a", first=[3.0, 0.0], second=[4.0])
    other = save(tmp_path / "b", first=[3.0, 0.3], second=[3.6])
    agreement = compare(1.0, other, reference_loss=1.0, reference_gradient=reference)
    assert agreement.whole == pytest.approx(0.1, rel=1e-6)  # the root of 0.3² + 0.4², of 5


def test_bfloat16_is_checked_by_loss_and_whole_gradient() -> None:
    Agreement(0.05, 0.9, "w", 0.05).check_bfloat16("both")
    with pytest.raises(MeasurementError, match=r"by 0\.06 of its 2-norm \(bfloat16 explains 0\.05\)"):
        Agreement(0.0, 0.0, "w", 0.06).check_bfloat16("one and two")
    with pytest.raises(MeasurementError, match=r"one and two do not .* loss differs by 0\.06 of it"):
        Agreement(0.06, 0.0, "w", 0.0).check_bfloat16("one and two")
    with pytest.raises(MeasurementError, match="nothing was timed"):
        Agreement(0.0, 0.0, "w", float("inf")).check_bfloat16("both")
