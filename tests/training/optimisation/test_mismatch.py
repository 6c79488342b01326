"""Corrections for sampler-trainer mismatch, compared with numbers of other projects and worked by hand."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from upturn.training.optimisation.mismatch import Mismatch, WrittenLogprobs, mismatch
from upturn.training.policy_settings import MaskLevel, MismatchSettings, WeightLevel

# from SkyRL's test_off_policy_correction.py: log w = .5, −.5, 1
OLD, SAMPLER = [-1.0, -1.5, -0.5], [-1.5, -1.0, -1.5]


def _mask_settings(mask: MaskLevel, weight: WeightLevel = "none", cap: float | None = None) -> MismatchSettings:
    """Settings with the bounds .5 and 2."""
    return MismatchSettings(weight, cap, mask, 0.5, 2.0)


def _mismatch(
    old: Sequence[float],
    sampler: Sequence[float],
    settings: MismatchSettings,
    *,
    sequences: Sequence[int] | None = None,
    mask: Sequence[bool] | None = None,
) -> Mismatch:
    return mismatch(
        WrittenLogprobs(
            np.asarray(old, dtype=np.float32),
            np.asarray(sampler, dtype=np.float32),
            np.asarray([0] * len(old) if sequences is None else sequences, dtype=np.int64),
            None if mask is None else np.asarray(mask),
        ),
        settings,
    )


def test_defaults_only_measure() -> None:
    result = _mismatch(OLD, SAMPLER, MismatchSettings())
    assert result.corrections.tolist() == [1.0, 1.0, 1.0]
    weights = [math.exp(0.5), math.exp(-0.5), math.e]
    assert result.metrics == pytest.approx(
        {
            "mismatch_weight_mean": sum(weights) / 3,
            "mismatch_weight_max": math.e,
            "mismatch_ess": sum(weights) ** 2 / (3 * sum(weight**2 for weight in weights)),
            "mismatch_kl": (sum(weights) - 1.0 - 3.0) / 3,
            "mismatch_masked": 0.0,
        }
    )


def test_token_weights_match_skyrl() -> None:
    result = _mismatch(OLD, SAMPLER, MismatchSettings(weight="token", weight_cap=2.0))
    assert result.corrections.tolist() == pytest.approx([1.6487, 0.6065, 2.0], abs=1e-4)


def test_sequence_weights_match_skyrl() -> None:
    settings = MismatchSettings(weight="sequence", weight_cap=5.0)
    assert _mismatch(OLD, SAMPLER, settings).corrections.tolist() == pytest.approx([math.e] * 3)
    masked = _mismatch(OLD, SAMPLER, settings, mask=[True, False, True])
    assert masked.corrections.tolist() == pytest.approx([math.exp(1.5), 0.0, math.exp(1.5)])
    assert _mismatch([-1.0] * 3, [-2.0] * 3, settings).corrections.tolist() == [5.0] * 3


def test_geometric_mask_keeps_and_rejects_as_skyrl_does() -> None:
    settings = MismatchSettings(mask="geometric", mask_low=0.9, mask_high=1.1)
    assert _mismatch([-1.0, -1.1, -1.0], [-1.1, -1.0, -1.0], settings).corrections.tolist() == [1.0] * 3
    rejected = _mismatch([-0.5] * 3, [-1.0] * 3, settings)
    assert rejected.corrections.tolist() == [0.0] * 3
    assert rejected.metrics["mismatch_masked"] == 1.0


def test_geometric_mask_does_not_depend_on_length_and_the_sequence_mask_does() -> None:
    """1.1 a token: the product leaves [.5, 2] at the eighth token, its geometric mean never does."""
    for length, expected in ((7, 1.0), (8, 0.0)):
        pair = [math.log(1.1)] * length, [0.0] * length
        assert _mismatch(*pair, _mask_settings("sequence")).corrections[0] == expected
        assert _mismatch(*pair, _mask_settings("geometric")).corrections[0] == 1.0


def test_icepop_is_a_token_mask_with_the_weight_of_the_same_level() -> None:
    """0 if w lies outside [.5, 2], else w; log w = .5, −.5, 1, −1."""
    settings = _mask_settings("token", "token")
    result = _mismatch([*OLD, -2.0], [*SAMPLER, -1.0], settings)
    assert result.corrections.tolist() == pytest.approx([math.exp(0.5), math.exp(-0.5), 0.0, 0.0])
    assert result.metrics["mismatch_masked"] == 0.5


def test_sequence_masks_drop_whole_sequences_only() -> None:
    """Πw = e and e^.1; mean k3 = (w − log w − 1)/n."""
    old, sampler = [0.0, 0.0, 0.0, 0.0], [-0.5, -0.5, -0.6, 0.5]
    for settings in (
        _mask_settings("sequence"),
        MismatchSettings(mask="geometric", mask_low=0.9, mask_high=1.2),
    ):
        assert _mismatch(old, sampler, settings, sequences=[0, 0, 1, 1]).corrections.tolist() == [0, 0, 1, 1]
    first = math.exp(0.5) - 1.5
    second = (math.exp(0.6) - 1.6 + math.exp(-0.5) - 0.5) / 2
    assert first < 0.15 < second < 0.17
    k3 = MismatchSettings(mask="k3", mask_high=0.15)
    assert _mismatch(old, sampler, k3, sequences=[0, 0, 1, 1]).corrections.tolist() == [1, 1, 0, 0]


def test_masked_tokens_change_nothing_and_get_zero() -> None:
    for settings in (
        MismatchSettings(),
        _mask_settings("geometric", "sequence", 3.0),
        MismatchSettings(weight="token", weight_cap=3.0, mask="k3", mask_high=0.2),
    ):
        plain = _mismatch(OLD, SAMPLER, settings)
        padded = _mismatch(
            [*OLD, math.nan, math.inf],
            [*SAMPLER, 0.0, math.nan],
            settings,
            sequences=[0] * 5,
            mask=[True] * 3 + [False] * 2,
        )
        assert padded.corrections.tolist() == [*plain.corrections.tolist(), 0.0, 0.0]
        assert padded.metrics == plain.metrics


def test_without_tokens_metrics_are_nan() -> None:
    for pair in ([], []), ([0.0], [math.nan]):
        result = _mismatch(*pair, MismatchSettings(), mask=[False] * len(pair[0]))
        assert result.corrections.tolist() == [0.0] * len(pair[0])
        assert all(math.isnan(value) for value in result.metrics.values())


def test_extreme_differences_stay_finite() -> None:
    result = _mismatch([0.0, -900.0], [-900.0, 0.0], MismatchSettings(weight="sequence", weight_cap=2.0))
    assert result.corrections.tolist() == [1.0, 1.0]
    assert all(math.isfinite(value) for value in result.metrics.values())


@given(
    logs=arrays(np.float32, 6, elements=st.floats(-3, 3, width=32)),
    settings=st.sampled_from(
        [
            MismatchSettings(),
            MismatchSettings(weight="token", weight_cap=2.0),
            _mask_settings("geometric", "sequence", 2.0),
            MismatchSettings(mask="k3", mask_high=0.1),
        ]
    ),
)
def test_corrections_are_bounded_and_order_does_not_matter(
    logs: np.ndarray[tuple[int], np.dtype[np.float32]], settings: MismatchSettings
) -> None:
    sequences, order = np.array([0, 0, 0, 1, 1, 2]), np.array([5, 3, 1, 0, 4, 2])
    zeros = np.zeros(6, dtype=np.float32)
    result = mismatch(WrittenLogprobs(logs, zeros, sequences), settings)
    reordered = mismatch(WrittenLogprobs(logs[order], zeros, sequences[order]), settings)
    np.testing.assert_allclose(reordered.corrections, result.corrections[order], rtol=1e-6)
    assert ((result.corrections >= 0) & (result.corrections <= 2)).all()
    assert 0 < result.metrics["mismatch_ess"] <= 1 + 1e-9
    assert result.metrics["mismatch_kl"] >= -1e-9
