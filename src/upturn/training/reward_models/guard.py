"""Overoptimisation of reward models: their scores against the verifier, on the same trajectories. No torch here.

A policy that is trained on a proxy raises it beyond the point where the true reward falls (arXiv 2210.10760). So
both are on the curve: a proxy that rises while success does not, or that no longer separates successes from
failures, is being exploited.
"""

from collections.abc import Iterable
from math import fsum

from upturn.training.advantage import ScoredGroup
from upturn.training.reward_models.held_out import separation


def proxy_metrics(groups: Iterable[ScoredGroup]) -> dict[str, float]:
    """Returns, for each reward model, its mean score, the share of verified successes, and the probability that a
    success scores above a failure (if there are both), over the trajectories that have a score and a verdict."""
    judged: dict[str, list[tuple[float, bool]]] = {}
    for member in (member for group in groups for member in group.members):
        for name, score in member.proxies.items():
            if score is not None and member.succeeded is not None:
                judged.setdefault(name, []).append((score, member.succeeded))
    metrics: dict[str, float] = {}
    for name, pairs in judged.items():
        metrics[f"proxy_reward_{name}"] = fsum(score for score, _ in pairs) / len(pairs)
        metrics[f"proxy_success_{name}"] = sum(is_success for _, is_success in pairs) / len(pairs)
        separated = separation(pairs)
        if separated is not None:
            metrics[f"proxy_separation_{name}"] = separated
    return metrics
