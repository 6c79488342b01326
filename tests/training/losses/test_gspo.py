"""GSPO in its token form: the sequence's ratio as value, the token's own gradient, GSPO's gradient in the mean."""

import math
from collections.abc import Callable

import pytest
import torch

from upturn.training.loss import TokenBatch
from upturn.training.losses import ClippedPolicy, SequencePolicy

Tokens = Callable[..., TokenBatch]
SEQUENCES = [0, 0, 0, 1, 1]
LOGPROBS = [-1.0, -0.5, -2.0, -1.5, -0.2]
OLD = [-1.3, -0.4, -1.8, -1.0, -0.9]


def test_every_token_has_its_sequences_geometric_mean_ratio(tokens: Tokens) -> None:
    batch = tokens(LOGPROBS, OLD, [1.0] * 5, sequences=SEQUENCES)
    losses = -SequencePolicy(0.9, 9.0).losses(batch).detach()
    first, second = math.exp((0.3 - 0.1 - 0.2) / 3), math.exp((-0.5 + 0.7) / 2)
    assert losses.tolist() == pytest.approx([first] * 3 + [second] * 2)


def test_the_mean_over_each_sequence_has_the_gradient_of_gspo(tokens: Tokens) -> None:
    """Against −min(s·A, clip(s)·A) written down for sequences, with s differentiated in the ordinary way.

    s = 1.221 and 1.105 lie inside [.8, 1.25], outside of [.9, 1.15] and so on: bounds that bind, and that do not.
    """
    gains = [1.5, -2.0]
    old = torch.tensor([-1.3, -0.8, -2.1, -1.6, -0.3], dtype=torch.float64)
    for low, high in ((0.2, 0.25), (0.1, 0.15), (0.2, 0.05)):
        batch = tokens(LOGPROBS, old.tolist(), [gains[sequence] for sequence in SEQUENCES], sequences=SEQUENCES)
        losses = SequencePolicy(low, high).losses(batch)
        (losses[:3].mean() + losses[3:].mean()).backward()
        plain = torch.tensor(LOGPROBS, dtype=torch.float64, requires_grad=True)
        whole = [(plain - old)[:3].mean().exp(), (plain - old)[3:].mean().exp()]
        expected = [
            -torch.minimum(ratio * gain, ratio.clamp(1 - low, 1 + high) * gain)
            for ratio, gain in zip(whole, gains, strict=True)
        ]
        torch.stack(expected).sum().backward()
        torch.testing.assert_close(batch.logprobs.grad, plain.grad)


def test_on_policy_it_has_the_gradient_of_the_token_level_objective(tokens: Tokens) -> None:
    gradients = []
    for objective in (SequencePolicy(3e-4, 4e-4), ClippedPolicy(0.2, 0.28)):
        batch = tokens(LOGPROBS, LOGPROBS, [1.0, 1.0, 1.0, -2.0, -2.0], sequences=SEQUENCES)
        objective.losses(batch).sum().backward()
        gradients.append(batch.logprobs.grad)
    torch.testing.assert_close(gradients[0], gradients[1])


def test_by_turn_every_token_has_and_is_clipped_by_the_ratio_of_its_turn(tokens: Tokens) -> None:
    """Turns 0 and 1 of the first rollout, 0 of the second: s = e^.1, e^-.2 and e^.1. Bounds [.85, 1.2] hold the
    second, which is good, and neither of the others."""
    batch = tokens(LOGPROBS, OLD, [1.0, 1.0, -1.0, 1.0, 1.0], sequences=SEQUENCES, turns=[0, 0, 1, 2, 2])
    objective = SequencePolicy(0.15, 0.2, extent="turn")
    losses = objective.losses(batch)
    assert losses.tolist() == pytest.approx([-math.exp(0.1)] * 2 + [0.85] + [-math.exp(0.1)] * 2)
    losses.sum().backward()
    assert batch.logprobs.grad is not None
    assert batch.logprobs.grad.tolist() == pytest.approx([-math.exp(0.1)] * 2 + [0.0] + [-math.exp(0.1)] * 2)
    seen = objective.statistics(batch).sums
    assert (seen["clip_fraction_low"], seen["clip_fraction_high"]) == (1, 0)


def test_one_turn_rollouts_and_one_token_turns_have_the_expected_ratios(
    tokens: Tokens,
) -> None:
    gains = [1.5, 1.5, 1.5, -2.0, -2.0]
    whole = tokens(LOGPROBS, OLD, gains, sequences=SEQUENCES, turns=SEQUENCES)
    by_rollout, by_turn = SequencePolicy(0.1, 0.05), SequencePolicy(0.1, 0.05, extent="turn")
    assert torch.equal(by_rollout.losses(whole), by_turn.losses(whole))
    single = tokens(LOGPROBS, OLD, gains, sequences=SEQUENCES, turns=range(5))
    torch.testing.assert_close(by_turn.losses(single), ClippedPolicy(0.1, 0.05).losses(single))


def test_clip_fractions_are_those_of_sequences_in_tokens(tokens: Tokens) -> None:
    """s = 1 with A > 0 and s = e^.1 with A > 0: the second is clipped, with both of its tokens."""
    batch = tokens(LOGPROBS, OLD, [1.0] * 5, sequences=SEQUENCES)
    seen = SequencePolicy(3e-4, 4e-4).statistics(batch).sums
    assert (seen["clip_fraction_low"], seen["clip_fraction_high"]) == (0, 2)
    assert seen["ratio"] == pytest.approx(3 + 2 * math.exp(0.1))


def test_without_sequence_indices_all_tokens_are_one_sequence(tokens: Tokens) -> None:
    alone = SequencePolicy(0.2, 0.2).losses(tokens(LOGPROBS, OLD, [1.0] * 5))
    named = SequencePolicy(0.2, 0.2).losses(tokens(LOGPROBS, OLD, [1.0] * 5, sequences=[0] * 5))
    assert alone.tolist() == named.tolist()
