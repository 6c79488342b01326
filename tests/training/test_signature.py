"""Signatures: equal for equal objects, different for other options, and the same in another process."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest

from upturn.training.advantages import Combined, FirstDivergence, GroupRelative, StateAnchored, TurnRelative
from upturn.training.signature import signature


class Slotted:
    __slots__ = ("left", "right")

    def __init__(self, left: object) -> None:
        self.left = left  # ``right`` is never set


@dataclass(frozen=True, slots=True)
class Chosen:
    weights: tuple[float, ...]

    def method(self) -> None: ...


def plain(_: object, share: float = 0.5, *, limit: int = 3) -> float:
    return share * limit


def closing(share: float) -> Callable[[object], float]:
    return lambda _: share


class Ring:
    def __init__(self) -> None:
        self.itself = self


FACTORIES: list[Callable[[Any], object]] = [
    lambda value: GroupRelative(gamma=value),
    lambda value: StateAnchored(gamma=value, turn_weight=1.0, is_scaled=True, anchor="observation"),
    lambda value: Combined(GroupRelative(), TurnRelative(gamma=value), 0.5),
    lambda value: FirstDivergence(gamma=value, error_probability=0.1, value_range=1.0),
    Slotted,
    lambda value: Chosen((0.25, value)),
    lambda value: Chosen((value,)).method,
    closing,
    lambda value: partial(plain, share=value),
    lambda value: {"share": value, 3: {1.0, value + 1}},
]


@pytest.mark.parametrize("make", FACTORIES)
def test_equal_objects_have_equal_signatures_and_other_options_have_not(make: Callable[[Any], object]) -> None:
    assert signature(make(0.5)) == signature(make(0.5))
    assert signature(make(0.5)) != signature(make(0.75))


def test_a_signature_names_class_and_options() -> None:
    assert signature(GroupRelative(gamma=0.5)) == (
        "upturn.training.advantages.trajectory.GroupRelative(baseline='group_mean', gamma=0.5, scale='none')"
    )
    assert signature(Chosen((1.0,))) == f"{__name__}.Chosen(weights=[1.0])"
    assert signature(plain) == f"{__name__}.plain(by name={{'limit': 3}}, defaults=[0.5])"
    assert signature(Ring()) == f"{__name__}.Ring(itself=...)"
    assert signature([len, Ring, None]) == f"[builtins.len, {__name__}.Ring, None]"


def test_array_contents_are_not_covered() -> None:
    assert signature(np.zeros(3)) == signature(np.ones(3)) == "numpy.ndarray()"


def test_another_process_computes_the_same_signature() -> None:
    """Neither addresses nor the order of sets: those of texts differ from process to process."""
    code = (
        "from upturn.training.advantages import Combined, GroupRelative, TreeSiblings; "
        "from upturn.training.signature import signature; "
        "print(signature([Combined(GroupRelative(), TreeSiblings(), 2.0), {'c', 'a', 'b'}]))"
    )
    signatures = {
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
        for _ in range(2)
    }
    assert len(signatures) == 1
    assert "needs={'token_rows'}" in signatures.pop()
