"""Parts of a rubric: how the values of components become one score. Pure functions.

A part gives weighted terms, and ``score_of`` adds them, so that parts may hold parts. Components of positive weight
raise the score, pitfalls (negative weight) only lower it, and those of weight 0 are metrics. A missing component is
left out and the weights of the others are scaled up; it is never 0.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from math import fsum, inf
from typing import NamedTuple, Protocol

from upturn.records import record

Components = Mapping[str, float | None]


class Term(NamedTuple):
    """A component's part in a score."""

    name: str
    """The component's."""
    weight: float
    """Only its ratio to the sum of the positive weights matters."""
    value: float | None
    """None = missing."""


class Part(Protocol):
    """A part of a rubric."""

    def terms(self, components: Components) -> Sequence[Term]:
        """What the part's score adds up."""


def score_of(terms: Iterable[Term]) -> float | None:
    """The weighted mean of the known terms of positive weight, less the weighted pitfalls.

    None = no term of positive weight is known. In [0, 1] for values in [0, 1] without pitfalls.
    """
    total = known = points = pitfalls = 0.0
    for _, weight, value in terms:
        if weight > 0:
            total += weight
        if value is not None and weight > 0:
            known += weight
            points += weight * value
        elif value is not None:
            pitfalls += weight * value
    return points / known + pitfalls / total if known else None


def is_complete(terms: Iterable[Term]) -> bool:
    """Whether no term with a weight is missing."""
    return all(term.value is not None or not term.weight for term in terms)


@record
class Component:
    """One component by itself."""

    name: str

    def terms(self, components: Components) -> Sequence[Term]:
        """Its term."""
        return (Term(self.name, 1.0, components.get(self.name)),)


@record
class WeightedSum:
    """Adds parts by weight. Only the ratios of the weights matter."""

    weights: Mapping[str, float]
    """By component, or by the name of a part. Negative = a pitfall, 0 = a metric."""
    parts: Mapping[str, Part] = field(default_factory=dict)
    """In place of components of these names."""

    def __post_init__(self) -> None:
        """Raises ValueError for weights of which none is positive or one is not finite, and for unused parts."""
        check_weights(self.weights, self.parts)

    def terms(self, components: Components) -> Sequence[Term]:
        """Those of each part, scaled to its weight."""
        return tuple(
            term
            for name, weight in self.weights.items()
            for term in scaled_terms(name, weight, self.parts.get(name), components)
        )


@record
class Gate:
    """A part that counts only where components reach a least value; otherwise only its pitfalls do."""

    conditions: Mapping[str, float]
    """The least value by component. Where one is missing, what it guards is missing too."""
    then: Part

    def terms(self, components: Components) -> Sequence[Term]:
        """The guarded part's; with known values 0 where a condition fails."""
        known = [(components.get(name), least) for name, least in self.conditions.items()]
        is_open = all(value is not None and value >= least for value, least in known)
        is_closed = any(value is not None and value < least for value, least in known)
        return guarded(self.then.terms(components), None if not (is_open or is_closed) else is_open)


@record
class Sequential:
    """Stages in order: a stage counts only where all earlier ones are reached."""

    weights: Mapping[str, float]
    """By component, or by the name of a part, in order. Positive."""
    parts: Mapping[str, Part] = field(default_factory=dict)
    reached: float = 1.0
    """Least score of a reached stage."""

    def __post_init__(self) -> None:
        """Raises ValueError for weights that are not positive and finite, and for unused parts."""
        check_weights(self.weights, self.parts)
        others = [name for name, weight in self.weights.items() if weight <= 0]
        if others:
            raise ValueError(f"a stage needs a positive weight, got {self.weights[others[0]]!r} for {others[0]!r}")

    def terms(self, components: Components) -> Sequence[Term]:
        """Those of each stage; with values 0 after one that is not reached, missing after one that is missing."""
        is_open: bool | None = True
        terms: list[Term] = []
        for name, weight in self.weights.items():
            stage = scaled_terms(name, weight, self.parts.get(name), components)
            terms += guarded(stage, is_open)
            score = score_of(stage)
            if is_open:
                is_open = None if score is None else score >= self.reached
        return tuple(terms)


def scaled_terms(name: str, weight: float, part: Part | None, components: Components) -> Sequence[Term]:
    """The component as a term, or the part's terms with positive weights that sum to the weight."""
    if part is None:
        return (Term(name, weight, components.get(name)),)
    inner = part.terms(components)
    scale = weight / fsum(term.weight for term in inner if term.weight > 0)
    return tuple(term._replace(weight=scale * term.weight) for term in inner)


def guarded(terms: Sequence[Term], is_open: bool | None) -> Sequence[Term]:
    """The terms; the known ones of positive weight are 0 where not open, missing where that is not known (None)."""
    if is_open:
        return terms
    shut = None if is_open is None else 0.0
    is_shut = [term.weight > 0 and term.value is not None for term in terms]
    return tuple(term._replace(value=shut) if shuts else term for term, shuts in zip(terms, is_shut, strict=True))


def check_weights(weights: Mapping[str, float], parts: Mapping[str, Part]) -> None:
    """Raises ValueError for weights of which none is positive or one is not finite, and for unused parts."""
    for name, weight in weights.items():
        if not -inf < weight < inf:
            raise ValueError(f"weights must be finite, got {weight!r} for {name!r}")
    if not any(weight > 0 for weight in weights.values()):
        raise ValueError(f"a rubric needs a component of positive weight, got {dict(weights)!r}")
    unused = [name for name in parts if name not in weights]
    if unused:
        raise ValueError(f"the part {unused[0]!r} has no weight; weights are for: {', '.join(weights)}")
