"""Shared by the implementations of sampling: the model, and the test that their tokens are drawn from it."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from transformers import PreTrainedModel

from benchmarks.worker_process import Settings
from benchmarks.workloads import Conversations, ModelSpec, build_model, parse_conversations

_NORM_WEIGHT = -8.0
"""Random weights of the usual size give all tokens nearly the same probability; logits eight times as large have an
entropy of about two nats, so that a wrong distribution shows. Negative, because the head is tied to the embedding:
a positive factor would repeat the last token forever."""
_SCORED = 2
"""Rollouts per task that are scored."""


class Scores(NamedTuple):
    """Comparison of sampled tokens with a dense forward pass."""

    max_logprob_gap: float
    """Largest |Δ log p| between recorded log-probs and the dense pass."""
    mean_logprob_gap: float
    z_score: float
    """Σ (log p + entropy) in standard deviations; its mean is 0 for tokens drawn from the model."""


class SampledRollout(NamedTuple):
    """One rollout of an implementation."""

    token_ids: Sequence[int]
    """Prompt, actions and observations."""
    positions: Sequence[int]
    """Positions of the written tokens."""
    logprobs: Sequence[float]
    """Recorded log-probs of the written tokens, at temperature 1."""


def prepare(settings: Settings) -> tuple[PreTrainedModel, Conversations]:
    """The model with random weights on its device, and the conversations; sets torch's threads."""
    values: Any = settings  # JSON from our own parent process
    torch.set_num_threads(values["threads"])
    model = build_model(ModelSpec(**values["model"]), values["device"]).eval().requires_grad_(False)
    decoder: Any = model.get_decoder()
    decoder.norm.weight.fill_(_NORM_WEIGHT)
    typed: Any = model.to(getattr(torch, values["precision"]))
    return typed, parse_conversations(values["conversations"])


def scored_indices(conversations: Conversations) -> list[int]:
    """Indices of the rollouts that are scored: the first of each task."""
    count, size = min(_SCORED, conversations.group_size), conversations.group_size
    return [task * size + index for task in range(conversations.tasks) for index in range(count)]


@torch.inference_mode()
def score(model: PreTrainedModel, rollouts: Sequence[SampledRollout]) -> Scores:
    """Scores by one dense forward pass over each rollout's whole history."""
    surprise, variance = 0.0, 0.0
    gaps: list[torch.Tensor] = []
    for rollout in rollouts:
        ids = torch.tensor([list(rollout.token_ids)], device=model.device)
        positions = torch.tensor(rollout.positions, device=model.device)
        logits = model(input_ids=ids, use_cache=False, logits_to_keep=positions - 1).logits[0]
        logprobs = logits.double().log_softmax(-1)
        written = logprobs.gather(1, ids[0, positions, None])[:, 0]
        gaps.append((written.cpu() - torch.tensor(rollout.logprobs, dtype=torch.float64)).abs())
        mean = (logprobs.exp() * logprobs).sum(-1)
        surprise += float((written - mean).sum())
        variance += float(((logprobs.exp() * logprobs.square()).sum(-1) - mean.square()).sum())
    all_gaps = torch.cat(gaps)
    return Scores(float(all_gaps.max()), float(all_gaps.mean()), surprise / math.sqrt(variance))
