"""Off-policy sequence masking against TRL's numbers."""

from collections.abc import Callable

from upturn.training.loss import TokenBatch
from upturn.training.losses import ClippedPolicy, ClippedWeights, OffPolicyMasked, WithKl

Tokens = Callable[..., TokenBatch]


def test_stale_sequences_with_negative_advantage_are_dropped(tokens: Tokens) -> None:
    """TRL test_get_off_policy_mask, retyped: A = 1, −1, −1, mean gaps 2, .5, 2, δ = 1 give keep, keep, drop."""
    old = [-1.0, -1.0, -1.0, -1.0, -1.0, -1.0]
    logprobs = [-2.5, -3.5, -1.2, -1.8, -2.0, -4.0]
    batch = tokens(logprobs, old, [1.0, 1.0, -1.0, -1.0, -1.0, -1.0], sequences=[0, 0, 1, 1, 2, 2])
    objective = OffPolicyMasked(ClippedWeights(1.0, 4.0), 1.0)
    objective.losses(batch).sum().backward()
    assert batch.logprobs.grad is not None
    assert [bool(gradient) for gradient in batch.logprobs.grad] == [True, True, True, True, False, False]
    assert objective.statistics(batch).sums["stale_fraction"] == 2


def test_masked_tokens_do_not_count_in_the_gap(tokens: Tokens) -> None:
    """TRL test_get_off_policy_mask_padding, retyped: the padded part alone would have decided otherwise."""
    losses = []
    for logprobs, mask in (
        ([-3.0, -3.0, -1.0, -1.0], [True, True, False, False]),  # gap 2 where it counts: dropped
        ([-1.0, -1.0, -9.0, -9.0], [True, True, False, False]),  # gap 0 where it counts: kept
    ):
        batch = tokens(logprobs, [-1.0] * 4, [-1.0] * 4, mask=mask)
        losses.append(OffPolicyMasked(ClippedPolicy(0.2, 0.28), 1.0).losses(batch).tolist())
    assert losses == [[0.0] * 4, [1.0, 1.0, 0.0, 0.0]]


def test_only_the_bad_turns_of_a_stale_sequence_are_dropped(tokens: Tokens) -> None:
    batch = tokens([-3.0, -3.0], [-1.0, -1.0], [1.0, -1.0])
    losses = OffPolicyMasked(ClippedWeights(1.0, 4.0), 1.0).losses(batch)
    assert [bool(loss) for loss in losses] == [True, False]


def test_a_kl_term_around_the_mask_keeps_dropped_tokens(tokens: Tokens) -> None:
    batch = tokens([-3.0, -3.0], [-1.0, -1.0], [-1.0, -1.0], reference=[-1.0, -3.0])
    losses = WithKl(OffPolicyMasked(ClippedPolicy(0.2, 0.28), 1.0), 1.0, estimator="k2").losses(batch)
    assert losses.tolist() == [2.0, 0.0]
