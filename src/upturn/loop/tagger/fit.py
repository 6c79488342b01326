"""Training of the tagger's network: cross-entropy of each token's label, Adam (Kingma and Ba, 2015), in numpy.

The layers are those of ``upturn.pool.privacy.tagger.network``, in floating point; ``quantised`` rounds them.
"""

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix

from upturn.loop.tagger.corpus import Block
from upturn.pool.privacy.tagger import BUCKETS, LABELS, PLACES, REACH

Floats: TypeAlias = npt.NDArray[np.float32]
Parameters: TypeAlias = dict[str, Floats]

WIDTH, HIDDEN, SECOND = 24, 48, 32
_FEATURE_SCALE = 0.05
"""Small, so that a word that was never seen adds little of its own to its parts."""
_BETA_1, _BETA_2, _EPSILON = 0.9, 0.99, 1e-8


class Pass(NamedTuple):
    """What a forward pass leaves for the backward one."""

    numbers: npt.NDArray[np.int32]
    """(T + 2 * REACH + 2,) rows of ``vectors``."""
    rows: csr_matrix
    vectors: Floats
    first: Floats
    window: Floats
    second: Floats
    scores: Floats


def initial(seed: int) -> Parameters:
    """Returns random parameters."""
    source = np.random.default_rng(seed)

    def normal(*shape: int, scale: float) -> Floats:
        return (source.standard_normal(shape) * scale).astype(np.float32)

    return {
        "features": normal(BUCKETS, WIDTH, scale=_FEATURE_SCALE),
        "places": normal(WIDTH, PLACES * HIDDEN, scale=(2 / (WIDTH * PLACES)) ** 0.5),
        "hidden_bias": np.zeros(HIDDEN, np.float32),
        "second": normal(3 * HIDDEN, SECOND, scale=(2 / (3 * HIDDEN)) ** 0.5),
        "second_bias": np.zeros(SECOND, np.float32),
        "labels": normal(SECOND, len(LABELS), scale=SECOND**-0.5),
        "labels_bias": np.zeros(len(LABELS), np.float32),
    }


def forward(parameters: Mapping[str, Floats], block: Block, part: slice) -> Pass:
    """Returns the scores of the tokens in a part of the block."""
    count = part.stop - part.start
    padded = np.zeros(count + 2 * REACH + 2, np.int32)
    begin, end = max(0, part.start - REACH - 1), min(len(block.numbers), part.stop + REACH + 1)
    offset = begin - (part.start - REACH - 1)
    padded[offset : offset + end - begin] = block.numbers[begin:end]
    distinct, numbers = np.unique(padded, return_inverse=True)
    rows = block.features[distinct]
    vectors: Floats = rows @ parameters["features"]
    placed = (vectors @ parameters["places"]).reshape(len(distinct), PLACES, HIDDEN)
    total = np.repeat(parameters["hidden_bias"][None], count + 2, axis=0)
    for place in range(PLACES):
        total += placed[numbers[place : place + count + 2], place]
    first = np.maximum(total, 0)
    window = np.concatenate((first[:-2], first[1:-1], first[2:]), axis=1)
    second = np.maximum(window @ parameters["second"] + parameters["second_bias"], 0)
    scores = second @ parameters["labels"] + parameters["labels_bias"]
    return Pass(numbers.astype(np.int32), rows, vectors, first, window, second, scores)


def gradients(
    parameters: Mapping[str, Floats], block: Block, part: slice, weights: Floats
) -> tuple[float, Parameters]:
    """Returns the mean loss and its gradients; ``weights``: of the labels."""
    made = forward(parameters, block, part)
    count = part.stop - part.start
    labels = block.labels[part]
    shifted = made.scores - made.scores.max(axis=1, keepdims=True)
    shares = np.exp(shifted)
    shares /= shares.sum(axis=1, keepdims=True)
    weight = weights[labels] * (block.numbers[part] > 0)
    total = float(weight.sum())
    loss = float(-(weight * np.log(shares[np.arange(count), labels] + 1e-12)).sum() / total)
    shares[np.arange(count), labels] -= 1
    d_scores = shares * (weight / total)[:, None]
    d_second = (d_scores @ parameters["labels"].T) * (made.second > 0)
    d_window = d_second @ parameters["second"].T
    d_first = np.zeros_like(made.first)
    for place in range(3):
        d_first[place : place + count] += d_window[:, place * HIDDEN : (place + 1) * HIDDEN]
    d_first *= made.first > 0
    d_placed = np.empty((made.rows.shape[0], PLACES, HIDDEN), np.float32)
    for place in range(PLACES):
        numbers = made.numbers[place : place + count + 2]
        choice = csr_matrix(
            (np.ones(count + 2, np.float32), (numbers, np.arange(count + 2))), shape=(made.rows.shape[0], count + 2)
        )
        d_placed[:, place] = choice @ d_first
    flat = d_placed.reshape(len(d_placed), -1)
    return loss, {
        "labels": made.second.T @ d_scores,
        "labels_bias": d_scores.sum(axis=0),
        "second": made.window.T @ d_second,
        "second_bias": d_second.sum(axis=0),
        "hidden_bias": d_first.sum(axis=0),
        "places": made.vectors.T @ flat,
        "features": made.rows.T @ (flat @ parameters["places"].T),
    }


class Adam:
    """The optimiser, with its state."""

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters
        self.steps = 0
        self.means = {name: np.zeros_like(value) for name, value in parameters.items()}
        self.squares = {name: np.zeros_like(value) for name, value in parameters.items()}

    def step(self, slopes: Mapping[str, Floats], rate: float) -> None:
        """Changes the parameters."""
        self.steps += 1
        correction = rate * (1 - _BETA_2**self.steps) ** 0.5 / (1 - _BETA_1**self.steps)
        for name, slope in slopes.items():
            mean, square = self.means[name], self.squares[name]
            mean += (1 - _BETA_1) * (slope - mean)
            square += (1 - _BETA_2) * (slope * slope - square)
            self.parameters[name] -= correction * mean / (np.sqrt(square) + _EPSILON)
