"""How many floating-point operations an update needs, counted on the tree of its rows.

Counted is what no exact method can do without: every distinct prefix of the rows once, the vocabulary head once for
each distinct place that predicts a written token, and attention from each distinct token to those before it. Of the
last layer only keys and values are needed for all tokens, the rest where a written token is predicted. Not counted:
anything computed again, padding, embeddings, norms, softmax, the optimiser.
"""

from collections.abc import Sequence
from typing import NamedTuple

from benchmarks.workloads.model import Subject
from upturn.training import TrainingRow


class TreeCount(NamedTuple):
    """What the rows come to when nothing is computed twice."""

    tokens: int
    """Distinct prefixes that have to be computed: of each row up to where its last written token is predicted."""
    predictors: int
    """Those among them that predict a written token."""
    attended: int
    """Pairs of a token and one that it attends to, itself included."""
    attended_last: int
    """Those of predictors: all that the last layer needs."""


def count_tree(rows: Sequence[TrainingRow]) -> TreeCount:
    """By walking a trie of the rows, token by token."""
    children: dict[tuple[int, int], int] = {}
    predictors: dict[int, int] = {}
    attended = 0
    for row in rows:
        at, is_predictor = -1, {int(position) - 1 for position in row.positions}
        for depth, token in enumerate(row.token_ids[: row.computed_length].tolist()):
            known = children.get((at, token))
            if known is None:
                known = children[at, token] = len(children)
                attended += depth + 1
            at = known
            if depth in is_predictor:
                predictors[at] = depth + 1
    return TreeCount(len(children), len(predictors), attended, sum(predictors.values()))


def layer_parameters(subject: Subject) -> int:
    """Weights of one layer's matrices: without biases and norms."""
    return _key_value_parameters(subject) + 2 * subject.width**2 + 3 * subject.width * subject.inner_width


def _key_value_parameters(subject: Subject) -> int:
    keys = subject.shared_heads * (subject.width // subject.heads)
    return 2 * subject.width * keys


def update_flops(count: TreeCount, subject: Subject) -> float:
    """Forward and backward: two operations a weight and token forward, four backward.

    Attention: scores and mixing are 2·width operations a pair each, and twice that backward.
    """
    whole, keys = layer_parameters(subject), _key_value_parameters(subject)
    body = 6.0 * (subject.layers - 1) * whole * count.tokens
    last = 6.0 * (keys * count.tokens + (whole - keys) * count.predictors)
    head = 6.0 * subject.vocabulary * subject.width * count.predictors
    attention = 12.0 * subject.width * ((subject.layers - 1) * count.attended + count.attended_last)
    return body + last + head + attention
