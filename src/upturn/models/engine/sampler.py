"""Draws tokens for a batch, each row with its own temperature and its own uniform number."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch


class Sampled(NamedTuple):
    """One token a row; shape (B,)."""

    ids: npt.NDArray[np.int64]
    logprobs: npt.NDArray[np.float32]
    """log p of each token at temperature 1, whatever it was sampled at."""


def sample(
    logits_BV: torch.Tensor, temperatures_B: npt.NDArray[np.float64], uniforms_B: npt.NDArray[np.float64]
) -> Sampled:
    """Inverts each row's cumulative distribution at its uniform number in [0, 1); temperature 0 takes the maximum.

    A row's token depends on that row alone. The cumulative sum is in float64, so a token of probability p is drawn
    with probability p to about 1e-7, whatever the vocabulary's size.
    """
    logprobs_BV = torch.log_softmax(logits_BV.float(), dim=-1)
    is_greedy_B = temperatures_B == 0.0
    if is_greedy_B.all():
        ids_B = logprobs_BV.argmax(dim=-1)
    else:
        ids_B = _inverted(logprobs_BV, temperatures_B, uniforms_B)
        if is_greedy_B.any():
            greedy_B = torch.from_numpy(is_greedy_B).to(ids_B.device)
            ids_B = torch.where(greedy_B, logprobs_BV.argmax(dim=-1), ids_B)
    chosen_B = logprobs_BV.gather(1, ids_B[:, None])[:, 0]
    return Sampled(ids_B.cpu().numpy(), chosen_B.cpu().numpy())


def _inverted(
    logprobs_BV: torch.Tensor, temperatures_B: npt.NDArray[np.float64], uniforms_B: npt.NDArray[np.float64]
) -> torch.Tensor:
    scaled_BV = logprobs_BV.double()
    if (temperatures_B != 1.0).any():
        divisors = np.where(temperatures_B == 0.0, 1.0, temperatures_B)
        scaled_BV = torch.log_softmax(scaled_BV / torch.from_numpy(divisors).to(scaled_BV.device)[:, None], dim=-1)
    cumulative_BV = scaled_BV.exp_().cumsum(dim=-1)
    total_B1 = cumulative_BV[:, -1:]
    # Strictly below the total, so that the first entry above the target exists and has positive probability.
    target_B1 = torch.from_numpy(uniforms_B).to(total_B1.device)[:, None] * total_B1
    target_B1 = torch.minimum(target_B1, torch.nextafter(total_B1, torch.zeros_like(total_B1)))
    return torch.searchsorted(cumulative_BV, target_B1, right=True)[:, 0]
