"""Sampler and trainer are two programs: how far their log-probs of the same tokens differ, and what corrects it.

w = π_old / π_sampler per token, with π_old the trainer's own probability before its first step and π_sampler the
recorded one. Weights make the sampler's tokens count as the trainer's would (importance sampling, truncated); masks
leave out what is too far off to correct. The result multiplies policy terms and carries no gradient: it is made of
plain numbers. By token the correction is biased but tame; by sequence it is unbiased, but Πw grows with length, so
that long rollouts are cut off first; the geometric mean (Πw)^(1/length) does not depend on length.

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

_LARGEST = 20.0
"""Log-ratios are held within ± this before exp: e²⁰ is 5·10⁸, and no bound in use lies beyond it (verl's value)."""

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


class WrittenLogprobs(NamedTuple):
    """The same written tokens as two programs see them; each ``(N,)``."""

    old: FloatArray
    """The trainer's log-probs before its first step."""
    sampler: FloatArray
    """The recorded ones."""
    sequences: IntArray
    """Index of the rollout of each token, from 0."""
    mask: Bools | None = None
    """True = takes part; None = all. Elsewhere anything may stand, NaN included."""


class Mismatch(NamedTuple):
    """What the comparison gives."""

    corrections: FloatArray
    """``(N,)``, not negative: what a token's policy term is multiplied by; 0 where the mask is False."""
    metrics: dict[str, float]
    """See ``mismatch``."""


def mismatch(tokens: WrittenLogprobs, settings: MismatchSettings) -> Mismatch:
    """Corrections as the settings ask for (1 each when they only measure), and how large the mismatch is.

    Metrics, over the tokens that take part: ``mismatch_weight_mean`` and ``_max`` of w by token, ``mismatch_ess``
    (effective share of the sample, (Σw)²/(n·Σw²), in (0, 1]), ``mismatch_kl`` (KL(sampler ‖ trainer) per token, the
    mean of w − log w − 1) and ``mismatch_masked`` (the share of tokens with correction 0). No token: all NaN.
    """
    mask = np.ones(len(tokens.old), dtype=np.bool_) if tokens.mask is None else tokens.mask
    if not mask.any():
        return Mismatch(np.zeros(len(mask), dtype=np.float32), dict.fromkeys(_METRICS, math.nan))
    old, sampler = np.where(mask, tokens.old, 0.0), np.where(mask, tokens.sampler, 0.0)
    logs = old.astype(np.float64) - sampler
    weights = _weights(logs, tokens.sequences, settings)
    kept = _kept(logs, tokens.sequences, mask, settings) & mask
    corrections = np.where(kept, weights, 0.0)
    ratios = _exp(logs)[mask]
    return Mismatch(
        corrections.astype(np.float32),
        {
            "mismatch_weight_mean": float(ratios.mean()),
            "mismatch_weight_max": float(ratios.max()),
            "mismatch_ess": float(ratios.sum() ** 2 / (len(ratios) * np.square(ratios).sum())),
            "mismatch_kl": float(k3(logs, _exp(logs))[mask].mean()),
            "mismatch_masked": float(1 - kept[mask].mean()),
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
            chosen = _sums(logs, sequences)[sequences]
        case _:
            assert_never(settings.weight)
    cap = math.inf if settings.weight_cap is None else settings.weight_cap
    return np.minimum(_exp(chosen), cap)


def _kept(logs: Floats, sequences: IntArray, mask: Bools, settings: MismatchSettings) -> Bools:
    """True for tokens that stay. Bounds belong to what is kept."""
    lengths = np.maximum(_sums(mask.astype(np.float64), sequences), 1.0)
    match settings.mask:
        case "none":
            return np.ones(len(logs), dtype=np.bool_)
        case "token":
            return _within(logs, settings)
        case "sequence":
            return _within(_sums(logs, sequences), settings)[sequences]
        case "geometric":
            return _within(_sums(logs, sequences) / lengths, settings)[sequences]
        case "k3":
            assert settings.mask_high is not None
            return (_sums(k3(logs, _exp(logs)), sequences) / lengths <= settings.mask_high)[sequences]
        case _:
            assert_never(settings.mask)


def _within(logs: Floats, settings: MismatchSettings) -> Bools:
    assert settings.mask_low is not None and settings.mask_high is not None
    return (logs >= math.log(settings.mask_low)) & (logs <= math.log(settings.mask_high))


def _sums(values: Floats, sequences: IntArray) -> Floats:
    """``(S,)``: the sum over each sequence's tokens."""
    return np.asarray(np.bincount(sequences, weights=values), dtype=np.float64)


def _exp(logs: Floats) -> Floats:
    return np.exp(np.clip(logs, -_LARGEST, _LARGEST))
