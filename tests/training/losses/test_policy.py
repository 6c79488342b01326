"""Every objective that settings can describe: masks, corrections, rows and nothing at all."""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from upturn.training.loss import TokenBatch
from upturn.training.losses import policy_objective
from upturn.training.policy_settings import KlSettings, ObjectiveSettings

KL = KlSettings(0.1, unbiased=True)
ALL = {
    "clipped": ObjectiveSettings(),
    "dual clip": ObjectiveSettings(dual_clip=3.0),
    "gspo": ObjectiveSettings("gspo", aggregation="sequence_mean"),
    "by turn": ObjectiveSettings("turn"),
    "cispo": ObjectiveSettings("cispo"),
    "sapo": ObjectiveSettings("sapo"),
    "vespo": ObjectiveSettings("vespo"),
    "without stale": ObjectiveSettings(stale_limit=0.1),
    "gspo without stale, with KL": ObjectiveSettings("gspo", aggregation="sequence_mean", stale_limit=0.1, kl=KL),
    "clipped with KL": ObjectiveSettings(kl=KL),
}
every = pytest.mark.parametrize("settings", ALL.values(), ids=ALL.keys())


@every
def test_masked_slots_give_exactly_zero(noisy: Callable[[], TokenBatch], settings: ObjectiveSettings) -> None:
    batch, objective = noisy(), policy_objective(settings)
    losses = objective.losses(batch)
    losses.sum().backward()
    assert batch.logprobs.grad is not None
    for values in (losses, batch.logprobs.grad):
        assert torch.isfinite(values).all()
        assert values[~batch.mask].tolist() == [0.0, 0.0]
    seen = objective.statistics(batch)
    assert all(math.isfinite(value) for value in (*seen.sums.values(), *seen.maxima.values()))


@every
def test_masked_slots_do_not_affect_others(noisy: Callable[[], TokenBatch], settings: ObjectiveSettings) -> None:
    batch = noisy()
    clean = batch._replace(
        **{
            name: torch.where(batch.mask, values, -7.0)
            for name, values in batch._asdict().items()
            if values is not None and values.dtype == torch.float64
        }
    )
    objective = policy_objective(settings)
    assert torch.equal(objective.losses(batch), objective.losses(clean))
    assert objective.statistics(batch) == objective.statistics(clean)


@every
def test_a_correction_multiplies_the_policy_term(
    noisy: Callable[[], TokenBatch], settings: ObjectiveSettings
) -> None:
    batch = noisy()._replace(mask=torch.tensor([True, False, True, False, False]))
    alone = policy_objective(replace(settings, kl=None))
    without = alone.losses(batch._replace(corrections=None))
    torch.testing.assert_close(
        alone.losses(batch), without * torch.tensor([1.0, 0.0, 0.5, 0.0, 0.0], dtype=torch.float64)
    )


@every
def test_tokens_may_come_in_any_order(noisy: Callable[[], TokenBatch], settings: ObjectiveSettings) -> None:
    """So neither rows nor micro-batches matter, as long as a rollout stays together."""
    batch, order = noisy(), torch.tensor([4, 2, 0, 3, 1])
    columns = {name: values[order] for name, values in batch._asdict().items() if values is not None}
    moved = batch._replace(**columns)
    objective = policy_objective(settings)
    torch.testing.assert_close(objective.losses(batch)[order], objective.losses(moved), rtol=1e-12, atol=0)


@every
def test_an_empty_batch_has_an_empty_loss(settings: ObjectiveSettings) -> None:
    empty, none = torch.zeros(0), torch.zeros(0, dtype=torch.int64)
    batch = TokenBatch(empty, empty, empty, empty.bool(), empty, empty, none, none)
    objective = policy_objective(settings)
    assert objective.losses(batch).shape == (0,)
    assert set(objective.statistics(batch).sums.values()) == {0.0}


@every
def test_without_advantage_there_is_no_policy_gradient(
    noisy: Callable[[], TokenBatch], settings: ObjectiveSettings
) -> None:
    batch = noisy()
    silent = batch._replace(weights=torch.zeros(5, dtype=torch.float64))
    policy_objective(replace(settings, kl=None)).losses(silent).sum().backward()
    assert batch.logprobs.grad is not None
    assert batch.logprobs.grad.abs().tolist() == [0.0] * 5


def test_an_adapted_coefficient_replaces_that_of_the_settings(noisy: Callable[[], TokenBatch]) -> None:
    batch, settings = noisy(), ObjectiveSettings(kl=KL)
    plain = policy_objective(ObjectiveSettings()).losses(batch)
    kl_term = policy_objective(settings).losses(batch) - plain
    adapted = policy_objective(settings, 0.3).losses(batch) - plain
    torch.testing.assert_close(adapted, 3 * kl_term)
