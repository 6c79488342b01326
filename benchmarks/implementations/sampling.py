"""What the sides of a sampling comparison share: the model, and the test that what they wrote is its own."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from transformers import PreTrainedModel

from benchmarks.worker_process import Settings
from benchmarks.workloads import Conversations, Subject, build_model, read_conversations

_SHARPNESS = -8.0
"""Random weights of the usual size give all tokens nearly the same probability; logits eight times as large spread
over about two nats, so that a wrong distribution would show. Negative, because the head is tied to the embedding: a
positive factor would repeat the last token for ever."""
_SCORED = 2
"""Attempts at each task that are scored."""


class Scores(NamedTuple):
    """What a dense forward pass says about tokens that were sampled."""

    max_logprob_gap: float
    """Largest |Δ log p| between what the side recorded and the dense pass."""
    z_score: float
    """Of Σ (log p + entropy), which has mean 0 for tokens drawn from the model, in standard deviations."""


class Written(NamedTuple):
    """One attempt as a side left it."""

    token_ids: Sequence[int]
    """All of it: prompt, actions, observations."""
    positions: Sequence[int]
    """Of the written tokens."""
    logprobs: Sequence[float]
    """What the side recorded for them, at temperature 1."""


def prepare(settings: Settings) -> tuple[PreTrainedModel, Conversations]:
    """The model with random weights, and the conversations; sets torch's threads."""
    found: Any = settings  # JSON from our own parent
    torch.set_num_threads(found["threads"])
    model = build_model(Subject(**found["subject"])).eval().requires_grad_(False)
    backbone: Any = model.get_decoder()
    backbone.norm.weight.fill_(_SHARPNESS)
    return model, read_conversations(found["conversations"])


def scored(conversations: Conversations) -> list[int]:
    """The attempts whose tokens are scored: the first of each task."""
    first = min(_SCORED, conversations.attempts)
    return [
        task * conversations.attempts + attempt for task in range(conversations.tasks) for attempt in range(first)
    ]


@torch.inference_mode()
def score(model: PreTrainedModel, attempts: Sequence[Written]) -> Scores:
    """Each attempt by one dense forward pass over its whole history."""
    gap, surprise, variance = 0.0, 0.0, 0.0
    for attempt in attempts:
        ids = torch.tensor([list(attempt.token_ids)])
        places = torch.tensor(attempt.positions)
        logits = model(input_ids=ids, use_cache=False, logits_to_keep=places - 1).logits[0]
        logprobs = logits.double().log_softmax(-1)
        chosen = logprobs.gather(1, ids[0, places, None])[:, 0]
        gap = max(gap, float((chosen - torch.tensor(attempt.logprobs, dtype=torch.float64)).abs().max()))
        mean = (logprobs.exp() * logprobs).sum(-1)
        surprise += float((chosen - mean).sum())
        variance += float(((logprobs.exp() * logprobs.square()).sum(-1) - mean.square()).sum())
    return Scores(gap, surprise / math.sqrt(variance))
