"""Preference losses: relative to a reference policy, DPO on pairs and KTO on rated trajectories; of the scores of a
reward model, Bradley–Terry on pairs.

DPO and KTO use the change of a trajectory's log-probability from the reference. Sums over a trajectory are in
float64, because the two sides of a pair nearly cancel.
"""

from typing import assert_never

import torch
from torch import Tensor
from torch.nn.functional import softplus

from upturn.training.loss import TokenBatch, TokenStatistics, apply_mask
from upturn.training.pair_settings import PairLoss


def pair_losses(margins: Tensor, kind: PairLoss, *, beta: float, label_smoothing: float = 0.0) -> Tensor:
    """``(P,)``: the loss of each pair from its margin ``(P,)``.

    With m = log π(y_w)/π_ref(y_w) − log π(y_l)/π_ref(y_l):

    - ``sigmoid``: −(1 − ε)·log σ(βm) − ε·log σ(−βm). DPO (arXiv 2305.18290, eq. 7) for ε = 0; with ε, the share of
      mislabelled pairs, conservative DPO (Mitchell, "A note on DPO with noisy preferences",
      2023, eq. 3), whose minimum is at βm = log((1 − ε)/ε). Where the policies are equal it is log 2 for any ε.
    - ``ipo``: (m − 1/2β)² (arXiv 2310.12036, eq. 17, β being its τ), whose minimum is at m = 1/2β.
    """
    match kind:
        case "sigmoid":
            losses = (1 - label_smoothing) * softplus(-beta * margins)
            return losses + label_smoothing * softplus(beta * margins) if label_smoothing else losses
        case "ipo":
            return (margins - 1 / (2 * beta)).square()
        case _:
            assert_never(kind)


class PairedPreference:
    """Pair losses, distributed evenly over a pair's written tokens, so that token losses add up to pair losses.

    Rows need their pair and reference log-probs. Weights are positive on the better side and negative on the other:
    the margin is Σ weight·(log π − log π_ref). Tokens that both sides share after a common prefix cancel.
    """

    def __init__(self, kind: PairLoss, *, beta: float, label_smoothing: float = 0.0) -> None:
        self.kind: PairLoss = kind
        self.beta = beta
        self.label_smoothing = label_smoothing

    def losses(self, batch: TokenBatch) -> Tensor:
        """``(N,)``; 0 for tokens in no pair."""
        batch = _in_pairs(batch)
        assert batch.pairs is not None
        margins = _sums(_log_ratios(batch) * apply_mask(batch.weights, batch.mask), batch.pairs)
        losses = pair_losses(margins, self.kind, beta=self.beta, label_smoothing=self.label_smoothing)
        return _spread(losses, batch.pairs, batch)

    def statistics(self, batch: TokenBatch) -> TokenStatistics:
        """Means over pairs: ``pair_accuracy``, the share with positive margin, and the implicit rewards
        β·Σ|weight|·(log π − log π_ref) of both sides, ``chosen_reward`` and ``rejected_reward``."""
        batch = _in_pairs(batch)
        assert batch.pairs is not None
        weights = apply_mask(batch.weights, batch.mask)
        weighted = _log_ratios(batch).detach() * weights
        chosen = self.beta * _sums(torch.where(weights > 0, weighted, 0.0), batch.pairs)
        rejected = -self.beta * _sums(torch.where(weights < 0, weighted, 0.0), batch.pairs)
        sums = {
            "pair_accuracy": float((chosen > rejected).sum()),
            "chosen_reward": float(chosen.sum()),
            "rejected_reward": float(rejected.sum()),
        }
        return TokenStatistics(sums, {}, float(len(chosen)))


class RankedScores:
    """Bradley–Terry on the scores r of a reward model: −log σ(r_chosen − r_rejected − m), plus c·(r_chosen +
    r_rejected)².

    The loss of InstructGPT (arXiv 2203.02155, eq. 1), with the margin m of Llama 2 (arXiv 2307.09288, eq. 2) and
    the centring term of arXiv 2312.09244 (eq. 2), as in TRL's ``RewardTrainer``. In its batch ``logprobs`` are
    scores, one token per side of a pair; weights are 1 on the chosen side and −1 on the rejected one;
    ``reference_logprobs`` are m on the chosen side and 0 on the other. Scores are defined up to a constant, which
    centring determines.
    """

    def __init__(self, *, centring: float = 0.0) -> None:
        """``centring``: c, 0 or more."""
        self.centring = centring
        self._ranking = PairedPreference("sigmoid", beta=1.0)

    def losses(self, batch: TokenBatch) -> Tensor:
        """``(N,)``; 0 for tokens in no pair."""
        losses = self._ranking.losses(batch)
        if not self.centring:
            return losses
        batch = _in_pairs(batch)
        assert batch.pairs is not None
        centres = _sums(apply_mask(batch.logprobs, batch.mask).double(), batch.pairs)
        return losses + _spread(self.centring * centres.square(), batch.pairs, batch)

    def statistics(self, batch: TokenBatch) -> TokenStatistics:
        """Means over pairs: ``ranking_accuracy``, the share whose chosen side has the higher score, the difference
        of the scores, ``ranking_margin``, and their mean, ``ranking_centre``."""
        batch = _in_pairs(batch)
        assert batch.pairs is not None
        scores = apply_mask(batch.logprobs, batch.mask).detach().double()
        margins = _sums(scores * apply_mask(batch.weights, batch.mask), batch.pairs)
        sums = {
            "ranking_accuracy": float((margins > 0).sum()),
            "ranking_margin": float(margins.sum()),
            "ranking_centre": float(scores.sum()) / 2,
        }
        return TokenStatistics(sums, {}, float(len(margins)))


class RatedPreference:
    """KTO (arXiv 2402.01306, eq. 7): λ_D·(1 − σ(β(r − z))) for good, λ_U·(1 − σ(β(z − r))) for bad trajectories.

    r = Σ (log π − log π_ref) over a trajectory's written tokens; z is the reference point. The weights of a
    trajectory's tokens are all +1 (good) or all −1 (bad). Its loss is distributed evenly over its tokens, so that
    token losses add up to trajectory losses.
    """

    def __init__(self, *, beta: float, desirable: float, undesirable: float, reference_point: float) -> None:
        """``desirable``, ``undesirable``: λ_D and λ_U. ``reference_point``: z, not negative, without gradient."""
        self.beta = beta
        self.desirable = desirable
        self.undesirable = undesirable
        self.reference_point = reference_point

    def losses(self, batch: TokenBatch) -> Tensor:
        """``(N,)``"""
        assert batch.sequences is not None
        gains, signs = self._gains(batch)
        scales = torch.where(signs > 0, self.desirable, self.undesirable)
        return _spread(scales * (1 - torch.sigmoid(gains)), batch.sequences, batch)

    def statistics(self, batch: TokenBatch) -> TokenStatistics:
        """Means over trajectories: ``rating_accuracy``, the share on their rating's side of the reference point,
        and ``rating_margin``, β·(r − z) or β·(z − r)."""
        gains, _ = self._gains(batch)
        sums = {"rating_accuracy": float((gains > 0).sum()), "rating_margin": float(gains.detach().sum())}
        return TokenStatistics(sums, {}, float(len(gains)))

    def _gains(self, batch: TokenBatch) -> tuple[Tensor, Tensor]:
        """For each trajectory: β times its distance on its rating's side of z, and the rating as +1 or −1."""
        assert batch.sequences is not None
        signs = _sums(apply_mask(batch.weights, batch.mask).double(), batch.sequences).sign()
        rewards = _sums(_log_ratios(batch), batch.sequences)
        return self.beta * signs * (rewards - self.reference_point), signs


def _log_ratios(batch: TokenBatch) -> Tensor:
    """log π − log π_ref per token in float64; exactly 0 where the mask is False. Needs ``reference_logprobs``."""
    assert batch.reference_logprobs is not None
    return (
        apply_mask(batch.logprobs, batch.mask).double() - apply_mask(batch.reference_logprobs, batch.mask).double()
    )


def _in_pairs(batch: TokenBatch) -> TokenBatch:
    """The batch without tokens that are in no pair."""
    assert batch.pairs is not None
    return batch._replace(mask=batch.mask & (batch.pairs >= 0), pairs=batch.pairs.clamp(min=0))


def _sums(values: Tensor, indices: Tensor) -> Tensor:
    """``(P,)``: the sum of the values of each index, in order."""
    count = int(indices.max()) + 1 if indices.numel() else 0
    return values.new_zeros(count).index_add(0, indices.flatten(), values.flatten())


def _spread(losses: Tensor, indices: Tensor, batch: TokenBatch) -> Tensor:
    """The loss of each index divided equally among its unmasked tokens; 0 elsewhere."""
    counts = _sums(batch.mask.double(), indices)
    shares = (losses / counts.clamp(min=1))[indices]
    return torch.where(batch.mask, shares, 0.0).to(batch.logprobs.dtype)
