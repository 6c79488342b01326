"""Rounding the trained parameters to bytes, with shifts that keep the sums in the range of the network."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from upturn.loop.tagger.fit import Floats
from upturn.pool.privacy.tagger import Hashes, Weights

_LARGEST = 127


def _bytes(values: Floats, scale: float) -> npt.NDArray[np.int8]:
    rounded: npt.NDArray[np.int8] = np.clip(np.rint(values * scale), -_LARGEST, _LARGEST).astype(np.int8)
    return rounded


def _scale(values: Floats) -> float:
    """Returns what to multiply with, so that all but one of ten thousand values fit into a byte."""
    return float(_LARGEST / np.quantile(np.abs(values), 0.9999))


def quantised(
    parameters: Mapping[str, Floats], largest_hidden: tuple[float, float], lexicon: tuple[Hashes, Hashes, Hashes]
) -> tuple[Weights, float]:
    """Returns the weights in whole numbers and the scale of the scores; ``largest_hidden``: usual largest values
    behind both layers.

    A whole number is the value in floating point times the scale of its layer. Shifts divide by powers of two.
    """
    features = _scale(parameters["features"])
    places = _scale(parameters["places"])
    second = _scale(parameters["second"])
    labels = _scale(parameters["labels"])
    shift_vectors = 10  # norm_of is 1024 / sqrt(n)
    vectors = features
    shift_placed = max(0, round(np.log2(vectors * places / 128)))
    placed = vectors * places / 2**shift_placed
    shift_first = max(0, int(np.ceil(np.log2(placed * largest_hidden[0] / 511))))
    first = placed / 2**shift_first
    shift_second = max(0, int(np.ceil(np.log2(first * second * largest_hidden[1] / 511))))
    last = first * second / 2**shift_second
    weights = Weights(
        features=_bytes(parameters["features"], features),
        places=_bytes(parameters["places"], places),
        hidden_bias=np.rint(parameters["hidden_bias"] * placed).astype(np.int32),
        second=_bytes(parameters["second"], second),
        second_bias=np.rint(parameters["second_bias"] * first * second).astype(np.int32),
        labels=_bytes(parameters["labels"], labels),
        labels_bias=np.rint(parameters["labels_bias"] * last * labels).astype(np.int32),
        shifts=np.array([shift_vectors, shift_placed, shift_first, shift_second], np.int32),
        frequent=lexicon[0],
        words=lexicon[1],
        names=lexicon[2],
    )
    return weights, last * labels
