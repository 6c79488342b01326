"""Preference losses against their formulas, written here once more and by hand."""

import math
from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor

from upturn.training.loss import Objective, TokenBatch
from upturn.training.losses import PairedPreference, RatedPreference, pair_losses

Tokens = Callable[..., TokenBatch]
# Pair 0: two tokens written by both sides after the same tokens, then one and two of their own; pair 1: one a side;
# the last token is in no pair.
LOGPROBS = [-1.0, -0.5, -0.3, -1.0, -0.5, -2.0, -1.5, -0.7, -0.9, -5.0]
REFERENCE = [-1.2, -0.4, -0.8, -1.2, -0.4, -1.1, -1.4, -0.7, -1.0, -1.0]
WEIGHTS = [1.0, 1.0, 1.0, -1.0, -1.0, -1.0, -1.0, 1.0, -1.0, 1.0]
SEQUENCES = [0, 0, 0, 1, 1, 1, 1, 2, 3, 4]
PAIRS = [0, 0, 0, 0, 0, 0, 0, 1, 1, -1]
MARGINS = [0.5 - (-0.9 - 0.1), 0.0 - 0.1]
"""Of the tokens that differ: .5 on the better side of pair 0, −.9 and −.1 on the other; 0 and .1 in pair 1."""


@pytest.fixture
def batch(tokens: Tokens) -> TokenBatch:
    batch = tokens(LOGPROBS, REFERENCE, WEIGHTS, reference=REFERENCE, sequences=SEQUENCES)
    return batch._replace(pairs=torch.tensor(PAIRS))


def _by_pair(losses: Tensor) -> list[float]:
    return [float(losses.detach()[torch.tensor(PAIRS) == pair].sum()) for pair in range(2)]


def test_equal_policies_have_a_loss_of_exactly_log_two(tokens: Tokens) -> None:
    zero = torch.zeros(3, dtype=torch.float64)
    for beta in (0.01, 0.1, 5.0):
        assert pair_losses(zero, "sigmoid", beta=beta).tolist() == [math.log(2)] * 3
        smoothed = pair_losses(zero, "sigmoid", beta=beta, label_smoothing=0.25)
        assert smoothed.tolist() == [math.log(2)] * 3
    same = tokens(LOGPROBS, LOGPROBS, WEIGHTS, reference=LOGPROBS, sequences=SEQUENCES)
    losses = PairedPreference("sigmoid", beta=0.1).losses(same._replace(pairs=torch.tensor(PAIRS)))
    assert _by_pair(losses) == pytest.approx([math.log(2)] * 2, rel=1e-15)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_dpo_loss_and_gradient_match_the_formula(batch: TokenBatch, smoothing: float) -> None:
    beta = 0.7
    losses = PairedPreference("sigmoid", beta=beta, label_smoothing=smoothing).losses(batch)

    def sigma(value: float) -> float:
        return 1 / (1 + math.exp(-value))

    expected = [
        -(1 - smoothing) * math.log(sigma(beta * m)) - smoothing * math.log(sigma(-beta * m)) for m in MARGINS
    ]
    assert _by_pair(losses) == pytest.approx(expected, rel=1e-12)
    losses.sum().backward()
    slopes = [-beta * ((1 - smoothing) * sigma(-beta * m) - smoothing * sigma(beta * m)) for m in MARGINS]
    hand = [w * slopes[pair] if pair >= 0 else 0.0 for w, pair in zip(WEIGHTS, PAIRS, strict=True)]
    assert batch.logprobs.grad is not None
    assert batch.logprobs.grad.tolist() == pytest.approx(hand, rel=1e-12)


def test_ipo_loss_and_gradient_match_the_formula(batch: TokenBatch) -> None:
    """With β = .5 the margin to be reached is 1: (1.5 − 1)² = .25 and (−.1 − 1)² = 1.21."""
    losses = PairedPreference("ipo", beta=0.5).losses(batch)
    assert _by_pair(losses) == pytest.approx([0.25, 1.21], rel=1e-12)
    losses.sum().backward()
    assert batch.logprobs.grad is not None
    assert batch.logprobs.grad.tolist() == pytest.approx([1.0] * 3 + [-1.0] * 4 + [-2.2, 2.2, 0.0], rel=1e-12)


@pytest.mark.parametrize(
    ("kind", "smoothing", "optimum"), [("ipo", 0.0, 1 / (2 * 0.3)), ("sigmoid", 0.2, math.log(0.8 / 0.2) / 0.3)]
)
def test_the_margin_with_the_smallest_loss_matches_theory(kind: str, smoothing: float, optimum: float) -> None:
    margins = torch.tensor([optimum, optimum - 0.1, optimum + 0.1], dtype=torch.float64, requires_grad=True)
    losses = pair_losses(margins, kind, beta=0.3, label_smoothing=smoothing)  # type: ignore[arg-type]
    losses.sum().backward()
    assert margins.grad is not None
    assert float(margins.grad[0]) == pytest.approx(0.0, abs=1e-12)
    assert float(margins.grad[1]) < 0 < float(margins.grad[2])
    assert float(losses[0].detach()) < float(losses[1:].min().detach())


def test_swapping_the_sides_negates_the_margin(batch: TokenBatch) -> None:
    swapped = batch._replace(weights=-batch.weights)
    objective = PairedPreference("sigmoid", beta=1.0)
    gaps = [
        there - here
        for there, here in zip(_by_pair(objective.losses(swapped)), _by_pair(objective.losses(batch)), strict=True)
    ]
    assert gaps == pytest.approx(MARGINS)  # log σ(m) − log σ(−m) = m


def test_a_pair_counts_as_accurate_if_the_chosen_side_gained_more(batch: TokenBatch) -> None:
    seen = PairedPreference("sigmoid", beta=0.5).statistics(batch)
    assert seen.counted == 2
    assert seen.sums["pair_accuracy"] == 1
    assert seen.sums["chosen_reward"] == pytest.approx(0.5 * (0.2 - 0.1 + 0.5 + 0.0))
    assert seen.sums["rejected_reward"] == pytest.approx(0.5 * (0.2 - 0.1 - 0.9 - 0.1 + 0.1))


def test_kto_loss_and_gradient_match_the_formula(batch: TokenBatch) -> None:
    beta, point, kinds = 0.4, 0.25, {1: 2.0, -1: 0.5}
    losses = RatedPreference(beta=beta, desirable=2.0, undesirable=0.5, reference_point=point).losses(batch)
    gradient = []
    for sequence in range(5):
        at = [index for index, other in enumerate(SEQUENCES) if other == sequence]
        sign, moved = int(WEIGHTS[at[0]]), sum(LOGPROBS[place] - REFERENCE[place] for place in at)
        value = 1 / (1 + math.exp(-beta * sign * (moved - point)))
        assert float(losses.detach()[at].sum()) == pytest.approx(kinds[sign] * (1 - value), rel=1e-12)
        gradient += [-kinds[sign] * value * (1 - value) * beta * sign] * len(at)
    losses.sum().backward()
    assert batch.logprobs.grad is not None
    assert batch.logprobs.grad.tolist() == pytest.approx(gradient, rel=1e-12)


def test_a_rating_counts_as_accurate_beyond_the_reference_point(batch: TokenBatch) -> None:
    """Moved: .6, −.9, 0, .1, −4; rated good, bad, good, bad, good; beyond .05: the first and the second."""
    seen = RatedPreference(beta=2.0, desirable=1.0, undesirable=1.0, reference_point=0.05).statistics(batch)
    assert (seen.counted, seen.sums["rating_accuracy"]) == (5, 2)
    assert seen.sums["rating_margin"] == pytest.approx(2 * (0.55 + 0.95 - 0.05 - 0.05 - 4.05))


OBJECTIVES: Sequence[Objective] = (
    PairedPreference("sigmoid", beta=0.3, label_smoothing=0.1),
    PairedPreference("ipo", beta=0.3),
    RatedPreference(beta=0.3, desirable=1.0, undesirable=1.0, reference_point=0.1),
)


@pytest.mark.parametrize("objective", OBJECTIVES, ids=["dpo", "ipo", "kto"])
def test_masked_tokens_change_nothing_whatever_their_values(
    noisy: Callable[[], TokenBatch], tokens: Tokens, objective: Objective
) -> None:
    marked = noisy()._replace(pairs=torch.tensor([0, 0, 0, 0, 0]))
    losses = objective.losses(marked)
    assert losses[~marked.mask].tolist() == [0.0, 0.0]
    losses.sum().backward()
    assert marked.logprobs.grad is not None
    assert marked.logprobs.grad[~marked.mask].tolist() == [0.0, 0.0]
    clean = tokens(
        [-1.0, -2.0, -0.5], [-1.2, -1.5, -1.0], [2.0, -1.0, -3.0],
        reference=[-1.1, -1.9, -0.9], sequences=[0, 0, 1],
    )._replace(pairs=torch.tensor([0, 0, 0]))  # fmt: skip
    assert losses[marked.mask].tolist() == pytest.approx(objective.losses(clean).tolist())
    assert objective.statistics(marked).sums == pytest.approx(objective.statistics(clean).sums)


@pytest.mark.parametrize("objective", OBJECTIVES, ids=["dpo", "ipo", "kto"])
def test_float32_rows_get_float32_losses(batch: TokenBatch, objective: Objective) -> None:
    single = batch._replace(
        logprobs=batch.logprobs.detach().float(), weights=batch.weights.float(),
        reference_logprobs=torch.tensor(REFERENCE),
    )  # fmt: skip
    losses = objective.losses(single)
    assert losses.dtype == torch.float32
    assert losses.tolist() == pytest.approx(objective.losses(batch).tolist(), rel=1e-5)
