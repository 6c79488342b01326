"""Recorded rollouts: shape, determinism, shared tokens, and that no ratio is near the clip."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.measurement import ORDINARY_LONG_SEED, ORDINARY_SEED, Sizes
from benchmarks.workloads.workload import (
    Workload,
    WorkloadSettings,
    make_workload,
    training_rows,
)
from upturn.errors import ConfigError

SMALL = WorkloadSettings(
    prompt_tokens=20, group_size=5, turns=(2, 4), action_tokens=(3, 6), observation_tokens=(7, 11), vocabulary=50
)


def same(first: Workload, second: Workload) -> bool:
    return first.settings == second.settings and all(
        np.array_equal(one.token_ids, other.token_ids)
        and np.array_equal(one.positions, other.positions)
        and np.array_equal(one.log_ratios, other.log_ratios)
        and one.reward == other.reward
        for one, other in zip(first.rollouts, second.rollouts, strict=True)
    )


def test_equal_settings_give_equal_rollouts_and_another_seed_others() -> None:
    assert same(make_workload(SMALL), make_workload(SMALL))
    assert not same(make_workload(SMALL), make_workload(WorkloadSettings(seed=1)))


@pytest.mark.parametrize("seed", range(20))
def test_lengths_are_within_the_settings(seed: int) -> None:
    settings = WorkloadSettings(
        prompt_tokens=20, group_size=3, turns=(2, 4), action_tokens=(3, 6), observation_tokens=(7, 11), seed=seed
    )
    for rollout in make_workload(settings).rollouts:
        gaps = np.flatnonzero(np.diff(rollout.positions) > 1)
        actions = np.split(rollout.positions, gaps + 1)
        observations = np.diff(rollout.positions)[gaps] - 1
        assert 2 <= len(actions) <= 4
        assert all(3 <= len(action) <= 6 for action in actions)
        assert all(7 <= length <= 11 for length in observations)
        assert rollout.positions[0] == 20
        assert rollout.positions[-1] == len(rollout.token_ids) - 1
        assert rollout.token_ids.min() >= 1
        assert rollout.token_ids.max() < settings.vocabulary


def shared_prefix(workload: Workload) -> int:
    """Length of the prefix that all rollouts share."""
    rows = [rollout.token_ids for rollout in workload.rollouts]
    shortest = min(len(row) for row in rows)
    return int(
        np.argmin([*(len({int(row[position]) for row in rows}) == 1 for position in range(shortest)), False])
    )


def test_by_default_rollouts_share_only_their_prompt() -> None:
    settings = WorkloadSettings(prompt_tokens=20, group_size=6, vocabulary=30_000)
    assert shared_prefix(make_workload(settings)) == 20


def test_shared_turns_are_the_same_in_all_rollouts() -> None:
    settings = WorkloadSettings(
        prompt_tokens=20,
        group_size=6,
        vocabulary=30_000,
        shared_turns=2,
        action_tokens=(5, 5),
        observation_tokens=(9, 9),
    )
    assert shared_prefix(make_workload(settings)) == 20 + 2 * (5 + 9)


def test_ratios_keep_a_distance_from_the_clip() -> None:
    ratios = np.exp(np.concatenate([rollout.log_ratios for rollout in make_workload(WorkloadSettings()).rollouts]))
    assert np.abs(ratios - 0.8).min() > 0.02
    assert np.abs(ratios - 1.28).min() > 0.02
    clipped = (ratios < 0.8) | (ratios > 1.28)
    assert 0.05 < clipped.mean() < 0.15  # binomial, about 1,500 tokens at 0.1: six standard deviations


def test_rows_hold_centred_rewards_and_the_log_probs_that_give_the_ratios() -> None:
    workload = make_workload(SMALL)
    logprobs = np.linspace(-3, -1, workload.written_tokens, dtype=np.float32)
    rows = training_rows(workload, logprobs)
    assert sum(float(row.weights[0]) for row in rows) == pytest.approx(0, abs=1e-6)
    assert len({row.trajectory_id for row in rows}) == 5
    start = 0
    for row, rollout in zip(rows, workload.rollouts, strict=True):
        count = len(rollout.positions)
        assert row.old_logprobs is not None
        assert row.reference_logprobs is not None
        np.testing.assert_array_equal(row.reference_logprobs, logprobs[start : start + count])
        np.testing.assert_allclose(row.reference_logprobs - row.old_logprobs, rollout.log_ratios, atol=1e-6)
        start += count


def test_counts_of_a_workload() -> None:
    workload = make_workload(SMALL)
    lengths = [len(rollout.token_ids) for rollout in workload.rollouts]
    assert (workload.logical_tokens, workload.padded_tokens) == (sum(lengths), 5 * max(lengths))


def test_all_invalid_settings_are_reported_together() -> None:
    with pytest.raises(ConfigError) as error:
        WorkloadSettings(prompt_tokens=0, group_size=1, turns=(3, 2), shared_turns=7, vocabulary=1)
    assert len(error.value.problems) == 4


@pytest.mark.parametrize("settings", [Sizes().workload, Sizes().gpu_workload])
def test_the_measured_group_is_an_ordinary_one(settings: WorkloadSettings) -> None:
    def counts(seed: int) -> tuple[float, ...]:
        workload = make_workload(replace(settings, seed=seed))
        repeated = (len(workload.rollouts) - 1) * workload.settings.prompt_tokens
        distinct = workload.logical_tokens - repeated
        padded = workload.padded_tokens
        return (padded, workload.logical_tokens, distinct, workload.written_tokens, padded / distinct)

    medians = np.median([counts(seed) for seed in range(201)], axis=0)
    assert counts(settings.seed) == pytest.approx(medians, rel=0.02)


def test_sizes_differ_from_the_defaults_as_documented() -> None:
    assert Sizes().workload == WorkloadSettings(seed=ORDINARY_SEED)
    assert Sizes().gpu_workload == WorkloadSettings(
        prompt_tokens=4_000, vocabulary=151_936, seed=ORDINARY_LONG_SEED
    )
