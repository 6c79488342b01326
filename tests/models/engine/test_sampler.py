import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from upturn.models.engine.sampling.sampler import sample, stream_of, uniforms


def test_a_uniform_number_selects_the_token_by_inverse_cdf() -> None:
    logits = torch.tensor([[0.1, 0.2, 0.3, 0.4]]).log().repeat(6, 1)
    uniforms = np.array([0.0, 0.0999, 0.1001, 0.2999, 0.3001, 0.9999])
    sampled = sample(logits, np.ones(6), uniforms)
    assert sampled.ids.tolist() == [0, 0, 1, 1, 2, 3]
    np.testing.assert_allclose(sampled.logprobs, np.log([0.1, 0.1, 0.2, 0.2, 0.3, 0.4]), rtol=1e-6)


def test_each_row_of_a_batch_has_its_own_temperature() -> None:
    logits = torch.tensor([[0.2, 0.8]]).log().repeat(3, 1)
    # At temperature 2 the probabilities are (√.2, √.8)/(√.2+√.8) = (1/3, 2/3); at 0 the maximum wins.
    sampled = sample(logits, np.array([1.0, 2.0, 0.0]), np.array([0.3, 0.3, 0.0]))
    assert sampled.ids.tolist() == [1, 0, 1]
    np.testing.assert_allclose(sampled.logprobs, np.log([0.8, 0.2, 0.8]), rtol=1e-6)


def test_the_largest_uniform_number_never_picks_an_impossible_token() -> None:
    logits = torch.tensor([[0.0, 1.0, -torch.inf, -torch.inf]])
    assert sample(logits, np.ones(1), np.array([np.nextafter(1.0, 0.0)])).ids.tolist() == [1]


def test_frequencies_follow_the_probabilities() -> None:
    generator = np.random.default_rng(0)
    probabilities = np.array([0.05, 0.25, 0.7])
    logits = torch.from_numpy(np.log(probabilities)).float().repeat(20_000, 1)
    ids = sample(logits, np.ones(20_000), generator.random(20_000)).ids
    counts = np.bincount(ids, minlength=3)
    statistic = float(((counts - 20_000 * probabilities) ** 2 / (20_000 * probabilities)).sum())
    assert statistic < 13.8, "chi-square with 2 degrees of freedom exceeds 13.8 with probability 0.001"


@settings(deadline=None, max_examples=60)
@given(
    vocabulary=st.integers(1, 300),
    seed=st.integers(0, 1000),
    uniform=st.floats(0, 1, exclude_max=True),
    spread=st.sampled_from([0.1, 1.0, 10.0, 60.0]),
)
def test_the_token_is_the_first_whose_cumulative_probability_exceeds_the_number(
    vocabulary: int, seed: int, uniform: float, spread: float
) -> None:
    logits = np.random.default_rng(seed).normal(0, spread, (1, vocabulary)).astype(np.float32)
    sampled = sample(torch.from_numpy(logits), np.ones(1), np.array([uniform]))
    exact = np.exp(logits[0].astype(np.float64) - logits.max())
    exact /= exact.sum()
    cumulative = np.concatenate([[0.0], exact.cumsum()])
    token = int(sampled.ids[0])
    assert cumulative[token] - 1e-6 <= uniform <= cumulative[token + 1] + 1e-6
    assert exact[token] > 0
    np.testing.assert_allclose(sampled.logprobs[0], np.log(exact[token]), atol=2e-5)


def test_an_underflowed_probability_still_gives_a_finite_logprob() -> None:
    logits = torch.tensor([[0.0, -300.0]])
    sampled = sample(logits, np.array([1e6]), np.array([0.9]))
    assert (sampled.ids.tolist(), sampled.logprobs.tolist()) == ([1], [-300.0])


def test_streams_are_splitmix64_and_differ_between_seeds() -> None:
    # The first outputs of the reference implementation of SplitMix64 from state 1234567
    # (Vigna, prng.di.unimi.it/splitmix64.c; copied from rosettacode.org/wiki/Pseudo-random_numbers/Splitmix64).
    outputs = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    numbers = uniforms(np.full(4, 1234567, dtype=np.uint64), np.arange(4))
    np.testing.assert_array_equal(numbers, [(output >> 11) / 2**53 for output in outputs])
    streams = np.array([stream_of(seed) for seed in (0, 1, 2, -1, 2**63 - 1)])
    assert len(set(streams.tolist())) == 5
    draws = uniforms(np.repeat(np.array([stream_of(seed) for seed in range(400)]), 50), np.tile(np.arange(50), 400))
    counts = np.bincount((draws * 20).astype(int), minlength=20)
    statistic = float(((counts - 1000) ** 2 / 1000).sum())
    assert statistic < 43.8, "chi-square with 19 degrees of freedom exceeds 43.8 with probability 0.001"
    neighbours = np.corrcoef(draws.reshape(400, 50)[:-1].ravel(), draws.reshape(400, 50)[1:].ravel())[0, 1]
    assert abs(neighbours) < 0.024, (
        "with 20 thousand independent pairs it exceeds 3.3 deviations with probability 0.001"
    )


@pytest.mark.parametrize("broken", [torch.nan, torch.inf])
def test_rows_with_non_finite_logits_are_reported(broken: float) -> None:
    sampled = sample(torch.tensor([[0.0, 1.0], [broken, 0.0]]), np.ones(2), np.array([0.5, 0.5]))
    assert sampled.is_finite.tolist() == [True, False]
    assert 0 <= int(sampled.ids[1]) < 2
