import numpy as np
import torch

from upturn.models.engine.sampler import sample


def test_a_uniform_number_picks_the_token_whose_share_it_falls_into() -> None:
    logits = torch.tensor([[0.1, 0.2, 0.3, 0.4]]).log().repeat(6, 1)
    uniforms = np.array([0.0, 0.0999, 0.1001, 0.2999, 0.3001, 0.9999])
    sampled = sample(logits, np.ones(6), uniforms)
    assert sampled.ids.tolist() == [0, 0, 1, 1, 2, 3]
    np.testing.assert_allclose(sampled.logprobs, np.log([0.1, 0.1, 0.2, 0.2, 0.3, 0.4]), rtol=1e-6)


def test_temperatures_of_one_batch_are_each_row_s_own() -> None:
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
