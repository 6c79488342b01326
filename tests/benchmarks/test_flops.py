"""Operations of small trees, counted by hand."""

import numpy as np
import pytest

from benchmarks.measurement import QWEN2_HALF_BILLION
from benchmarks.workloads.flops import count_tree, layer_parameters, update_flops
from benchmarks.workloads.model import ModelSpec, build_model
from upturn.training.row import TrainingRow


def row(name: str, tokens: list[int], written: list[int]) -> TrainingRow:
    count = len(written)
    return TrainingRow(name, np.array(tokens), np.array(written), np.ones(count, dtype=np.float32), None)


def test_one_row_counts_up_to_where_its_last_written_token_is_predicted() -> None:
    # Written: 5 (at 2) and 7 (at 4). Computed: 3 4 5 6; tokens after 7 are never read. Attended: 1 + 2 + 3 + 4, of
    # which 2 and 4 by the predictors 4 and 6.
    count = count_tree([row("a", [3, 4, 5, 6, 7, 8, 9], [2, 4])])
    assert count == (4, 2, 10, 6)


def test_shared_prefix_counts_once() -> None:
    # Both: 1 2 | then 3 4 and 5 6 (last token of each not computed). Distinct: 1, 2, 3, 5; attended 1 + 2 + 3 + 3.
    rows = [row("a", [1, 2, 3, 4], [2, 3]), row("b", [1, 2, 5, 6], [2, 3])]
    # Predictors: token 2 predicts 3 in one and 5 in the other, once; 3 and 5 predict the last ones.
    assert count_tree(rows) == (4, 3, 9, 2 + 3 + 3)


def test_the_same_tokens_after_different_ones_are_different() -> None:
    assert count_tree([row("a", [1, 7, 7], [2]), row("b", [2, 7, 7], [2])]).tokens == 4


@pytest.mark.parametrize(
    "spec",
    [
        ModelSpec(width=128, layers=3, vocabulary=100),
        ModelSpec(width=256, layers=3, vocabulary=100, key_value_heads=1, feed_forward=320),
    ],
)
def test_layer_parameters_are_those_of_the_models_matrices(spec: ModelSpec) -> None:
    matrices = [
        parameter.numel()
        for name, parameter in build_model(spec).named_parameters()
        if parameter.dim() == 2 and "embed" not in name
    ]
    assert 3 * layer_parameters(spec) == sum(matrices)


def test_the_gpus_model_has_the_494_032_768_parameters_of_qwen2_half_a_billion() -> None:
    """As in its model card: matrices, biases of queries, keys and values, two norms a layer, one at the end."""
    spec = QWEN2_HALF_BILLION
    biases = spec.width + 2 * spec.shared_heads * 64
    layer = layer_parameters(spec) + biases + 2 * spec.width
    assert (spec.vocabulary + 1) * spec.width + spec.layers * layer == 494_032_768


def test_operations_of_an_update_by_hand() -> None:
    # Width 128: two heads of 64, one key-value head. A layer: keys and values 2·128·64 = 16,384 weights, queries,
    # output and feed-forward 2·128² + 3·128·512 = 229,376.
    spec = ModelSpec(width=128, layers=2, vocabulary=10)
    count = count_tree([row("a", [3, 4, 5, 6, 7], [2, 4])])
    first, last = 6 * 245_760 * 4, 6 * (16_384 * 4 + 229_376 * 2)
    head, attention = 6 * 10 * 128 * 2, 12 * 128 * (10 + 6)
    assert update_flops(count, spec) == pytest.approx(first + last + head + attention)
