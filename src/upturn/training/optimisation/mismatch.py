"""Sampler-trainer mismatch: how far their log-probs of the same tokens differ, and corrections for it.

w = π_old / π_sampler per token, with π_old the trainer's probability before its first step and π_sampler the
recorded one. Weights are truncated importance weights; masks drop tokens too far off to correct. The result
multiplies policy terms and carries no gradient. Per token the correction is biased with low variance; per sequence
it is unbiased, but Πw grows with length, so long rollouts are truncated first; the geometric mean (Πw)^(1/length)
does not depend on length.

Forms as in verl (docs/algo/rollout_corr_math.md): truncated importance sampling, MIS (sequence mask with the weight
of the same level), IcePop (arXiv 2510.18855: the same by token), Geo-RS and K3-RS. numpy only, no torch.
"""

import math
from typing import NamedTuple, assert_never

import numpy as np
from numpy.typing import NDArray

from upturn.training.losses import k3
from upturn.training.policy_settings import MismatchSettings
from upturn.training.row import FloatArray, IntArray

_MAX_LOG_RATIO = 20.0
"""Log-ratios are clamped to ± this before exp: e²⁰ is 5·10⁸, beyond every bound in use (verl's value)."""

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


class WrittenLogprobs(NamedTuple):
    """Log-probs of the same written tokens from trainer and sampler; each ``(N,)``."""

    old: FloatArray
    """The trainer's log-probs before its first step."""
    sampler: FloatArray
    """The recorded ones."""
    sequences: IntArray
    """Index of the rollout of each token, from 0."""
    mask: Bools | None = None
    """True = included; None = all. Other entries may be anything, NaN included."""


class Mismatch(NamedTuple):
    """Corrections and metrics of the comparison."""

    corrections: FloatArray
    """``(N,)``, not negative: the factor of a token's policy term; 0 where the mask is False."""
    metrics: dict[str, float]
    """See ``mismatch``."""


def mismatch(tokens: WrittenLogprobs, settings: MismatchSettings) -> Mismatch:
    """Corrections by the settings (all 1 when they only measure), and metrics of the mismatch.

    Metrics over the included tokens: ``mismatch_weight_mean`` and ``_max`` of w per token, ``mismatch_ess``
    (effective share of the sample, (Σw)²/(n·Σw²), in (0, 1]), ``mismatch_kl`` (KL(sampler ‖ trainer) per token, the
    mean of w − log w − 1) and ``mismatch_masked`` (the share of tokens with correction 0). No token: all NaN.
    """
    mask = np.ones(len(tokens.old), dtype=np.bool_) if tokens.mask is None else tokens.mask
    if not mask.any():
        return Mismatch(np.zeros(len(mask), dtype=np.float32), dict.fromkeys(_METRICS, math.nan))
    old, sampler = np.where(mask, tokens.old, 0.0), np.where(mask, tokens.sampler, 0.0)
    logs = old.astype(np.float64) - sampler
    weights = _weights(logs, tokens.sequences, settings)
    is_kept = _mask(logs, tokens.sequences, mask, settings) & mask
    corrections = np.where(is_kept, weights, 0.0)
    ratios = _clamped_exp(logs)[mask]
    return Mismatch(
        corrections.astype(np.float32),
        {
            "mismatch_weight_mean": float(ratios.mean()),
            "mismatch_weight_max": float(ratios.max()),
            "mismatch_ess": float(ratios.sum() ** 2 / (len(ratios) * np.square(ratios).sum())),
            "mismatch_kl": float(k3(logs, _clamped_exp(logs))[mask].mean()),
            "mismatch_masked": float(1 - is_kept[mask].mean()),
        },
    )


_METRICS = ("mismatch_weight_mean", "mismatch_weight_max", "mismatch_ess", "mismatch_kl", "mismatch_masked")


def _weights(logs: Floats, sequences: IntArray, settings: MismatchSettings) -> Floats:
    match settings.weight:
        case "none":
            return np.ones_like(logs)
        case "token":
            chosen = logs
        case "sequence":
            chosen = _sequence_sums(logs, sequences)[sequences]
        case _:
            assert_never(settings.weight)
    cap = math.inf if settings.weight_cap is None else settings.weight_cap
    return np.minimum(_clamped_exp(chosen), cap)


def _mask(logs: Floats, sequences: IntArray, mask: Bools, settings: MismatchSettings) -> Bools:
    """True for tokens that are kept. Bounds are inclusive."""
    lengths = np.maximum(_sequence_sums(mask.astype(np.float64), sequences), 1.0)
    match settings.mask:
        case "none":
            return np.ones(len(logs), dtype=np.bool_)
        case "token":
            return _is_within(logs, settings)
        case "sequence":
            return _is_within(_sequence_sums(logs, sequences), settings)[sequences]
        case "geometric":
            return _is_within(_sequence_sums(logs, sequences) / lengths, settings)[sequences]
        case "k3":
            assert settings.mask_high is not None
            return (_sequence_sums(k3(logs, _clamped_exp(logs)), sequences) / lengths <= settings.mask_high)[
                sequences
            ]
        case _:
            assert_never(settings.mask)


def _is_within(logs: Floats, settings: MismatchSettings) -> Bools:
    assert settings.mask_low is not None and settings.mask_high is not None
    return (logs >= math.log(settings.mask_low)) & (logs <= math.log(settings.mask_high))


def _sequence_sums(values: Floats, sequences: IntArray) -> Floats:
    """``(S,)``: the sum over each sequence's tokens."""
    return np.asarray(np.bincount(sequences, weights=values), dtype=np.float64)


def _clamped_exp(logs: Floats) -> Floats:
    return np.exp(np.clip(logs, -_MAX_LOG_RATIO, _MAX_LOG_RATIO))
