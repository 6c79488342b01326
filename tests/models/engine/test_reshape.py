from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import (
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    SequenceBiasLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from upturn.config import SamplingSettings
from upturn.models.engine.sampling.reshape import ReshapedRows, reshape
from upturn.models.engine.sampling.sampler import sample

VOCABULARY = 97
OPTIONS: list[dict[str, Any]] = [
    {"top_k": 5},
    {"top_p": 0.9},
    {"top_p": 0.05},
    {"min_p": 0.1},
    {"repetition_penalty": 1.3},
    {"repetition_penalty": 0.8},
    {"logit_bias": {3: -100.0, 11: 4.0}},
    {"top_k": 20, "top_p": 0.7, "min_p": 0.05, "repetition_penalty": 1.2, "logit_bias": {5: 2.5}},
    {"top_k": 10_000, "top_p": 0.99},
]


def by_transformers(logits: Tensor, ids: Tensor, temperature: float, options: SamplingSettings) -> Tensor:
    """One row, in the order in which ``generate`` builds its processors."""
    processors = LogitsProcessorList()
    if options.logit_bias:
        processors.append(
            SequenceBiasLogitsProcessor([[[token], bias] for token, bias in options.logit_bias.items()])
        )
    if options.repetition_penalty != 1.0:
        processors.append(RepetitionPenaltyLogitsProcessor(options.repetition_penalty))
    if temperature != 1.0:
        processors.append(TemperatureLogitsWarper(temperature))
    if options.top_k:
        processors.append(TopKLogitsWarper(options.top_k))
    if options.top_p < 1.0:
        processors.append(TopPLogitsWarper(options.top_p))
    if options.min_p:
        processors.append(MinPLogitsWarper(options.min_p))
    scores: Tensor = processors(cast(torch.LongTensor, ids[None]), cast(torch.FloatTensor, logits[None].clone()))
    return scores[0]


def seen_of(ids: Tensor) -> Tensor:
    return torch.zeros(VOCABULARY, dtype=torch.bool).index_fill(0, ids, value=True)


@pytest.mark.parametrize("temperature", [0.7, 1.0, 1.5])
def test_each_row_equals_the_processors_of_transformers(temperature: float) -> None:
    generator = torch.Generator().manual_seed(3)
    options = [SamplingSettings(**values) for values in OPTIONS]
    logits = 4 * torch.randn(len(options), VOCABULARY, generator=generator)
    contexts = torch.randint(VOCABULARY, (len(options), 30), generator=generator)
    seen = torch.stack([seen_of(ids) for ids in contexts])
    actual = reshape(logits, options, [temperature] * len(options), seen=seen)
    for row, option in enumerate(options):
        torch.testing.assert_close(
            actual[row], by_transformers(logits[row], contexts[row], temperature, option), rtol=0, atol=0
        )


def test_a_row_does_not_depend_on_its_neighbours() -> None:
    logits = 3 * torch.randn(len(OPTIONS), VOCABULARY, generator=torch.Generator().manual_seed(5))
    options = [SamplingSettings(**values) for values in OPTIONS]
    heats = np.linspace(0.5, 1.5, len(options)).tolist()
    seen = torch.zeros_like(logits, dtype=torch.bool)
    seen[:, ::3] = True
    together = reshape(logits, options, heats, seen=seen)
    for row, option in enumerate(options):
        alone = reshape(logits[row : row + 1], [option], heats[row : row + 1], seen=seen[row : row + 1])
        assert together[row].equal(alone[0])


def test_ties_at_the_last_place_of_top_k_all_stay() -> None:
    logits = torch.tensor([[2.0, 1.0, 1.0, 0.0]])
    assert reshape(logits, [SamplingSettings(top_k=2)], [1.0]).isfinite().tolist() == [[True, True, True, False]]


def test_a_grammar_is_applied_before_the_other_options() -> None:
    logits = torch.tensor([[5.0, 1.0, 0.0]])
    allowed = torch.tensor([[False, True, True]])
    kept = reshape(logits, [SamplingSettings(top_k=1)], [1.0], allowed=allowed)
    assert kept.isfinite().tolist() == [[False, True, False]]


def test_reshaped_rows_of_a_batch_leave_the_others_bit_identical() -> None:
    logits = torch.randn(4, VOCABULARY, generator=torch.Generator().manual_seed(1))
    heats, draws = np.array([1.0, 0.7, 0.0, 1.0]), np.array([0.1, 0.5, 0.9, 0.97])
    plain = sample(logits, heats, draws)
    rows = torch.tensor([1, 2])
    options = [SamplingSettings(top_p=0.5), SamplingSettings(logit_bias={7: 100.0})]
    mixed = sample(logits, heats, draws, reshaped=ReshapedRows(rows, reshape(logits[rows], options, [0.7, 0.0])))
    assert mixed.ids[[0, 3]].equal(plain.ids[[0, 3]]) and mixed.logprobs[[0, 3]].equal(plain.logprobs[[0, 3]])
    assert int(mixed.ids[2]) == 7  # greedy decoding follows a bias
    assert mixed.sampling_logprobs is not None
    expected = by_transformers(logits[1], torch.tensor([0]), 0.7, options[0]).log_softmax(-1)[mixed.ids[1]]
    assert float(mixed.sampling_logprobs[1]) == pytest.approx(float(expected), abs=1e-6)
    # the log-prob at temperature 1 is the model's, whatever was sampled
    torch.testing.assert_close(mixed.logprobs[1], logits[1].log_softmax(-1)[mixed.ids[1]])


def test_frequencies_follow_the_truncated_distribution() -> None:
    logits = torch.tensor([0.5, 0.3, 0.15, 0.05]).log().repeat(20_000, 1)
    shaped = reshape(logits, [SamplingSettings(top_p=0.8)] * len(logits), [1.0] * len(logits))
    draws = np.random.default_rng(0).random(len(logits))
    rows = ReshapedRows(torch.arange(len(logits)), shaped)
    counts = np.bincount(sample(logits, np.ones(len(logits)), draws, reshaped=rows).ids.numpy(), minlength=4)
    assert counts[2:].tolist() == [0, 0]  # the two likeliest have .8
    expected = 20_000 * np.array([0.625, 0.375])
    assert (np.square(counts[:2] - expected) / expected).sum() < 10.83, "chi-square(1) exceeds it with p = .001"
