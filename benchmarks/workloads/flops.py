"""Floating-point operations that an update needs, counted on the prefix tree of its rows.

Counted is what no exact method can avoid: every distinct prefix of the rows once, the vocabulary head once for each
distinct position that predicts a written token, and attention from each distinct token to those before it. In the
last layer only keys and values are needed for all tokens, the rest only where a written token is predicted. Not
counted: recomputation, padding, embeddings, norms, softmax, the optimiser.
"""

from collections.abc import Sequence
from typing import NamedTuple

from benchmarks.workloads.model import ModelSpec
from upturn.training import TrainingRow


class TreeCount(NamedTuple):
    """Size of the prefix tree of some rows."""

    tokens: int
    """Distinct prefixes to compute: of each row up to the position that predicts its last written token."""
    predictors: int
    """Prefixes that predict a written token."""
    attended: int
    """Pairs of a token and one that it attends to, itself included."""
    attended_last: int
    """Pairs whose first token is a predictor: all that the last layer needs."""


def count_tree(rows: Sequence[TrainingRow]) -> TreeCount:
    """The size of the rows' prefix tree, which is built token by token."""
    children: dict[tuple[int, int], int] = {}
    predictors: dict[int, int] = {}
    attended = 0
    for row in rows:
        node, predicting = -1, {int(position) - 1 for position in row.positions}
        for depth, token in enumerate(row.token_ids[: row.computed_length].tolist()):
            child = children.get((node, token))
            if child is None:
                child = children[node, token] = len(children)
                attended += depth + 1
            node = child
            if depth in predicting:
                predictors[node] = depth + 1
    return TreeCount(len(children), len(predictors), attended, sum(predictors.values()))


def layer_parameters(spec: ModelSpec) -> int:
    """Weights of one layer's matrices, without biases and norms."""
    return _key_value_parameters(spec) + 2 * spec.width**2 + 3 * spec.width * spec.inner_width


def _key_value_parameters(spec: ModelSpec) -> int:
    return 2 * spec.width * spec.shared_heads * (spec.width // spec.heads)


def update_flops(count: TreeCount, spec: ModelSpec) -> float:
    """Operations of forward and backward: two per weight and token forward, four backward.

    Attention: scores and mixing take 2·width operations per pair each, and twice that backward.
    """
    layer, keys = layer_parameters(spec), _key_value_parameters(spec)
    body = 6.0 * (spec.layers - 1) * layer * count.tokens
    last = 6.0 * (keys * count.tokens + (layer - keys) * count.predictors)
    head = 6.0 * spec.vocabulary * spec.width * count.predictors
    attention = 12.0 * spec.width * ((spec.layers - 1) * count.attended + count.attended_last)
    return body + last + head + attention
