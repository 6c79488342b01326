"""A rubric: named reward components and how they combine into one score."""

from collections.abc import Mapping

from upturn.records import record


@record
class Rubric:
    """Weights by component. Every component is logged; only the weighted ones enter the score."""

    name: str
    weights: Mapping[str, float]
    """Positive; a component that is not named here is a metric with weight 0."""

    def score(self, components: Mapping[str, float | None]) -> float | None:
        """The weighted mean of the components, in [0, 1] when they are; None when a weighted one is missing.

        Missing is not zero: a crashed component leaves the trajectory unscored instead of failed.
        """
        total = 0.0
        for name, weight in self.weights.items():
            value = components.get(name)
            if value is None:
                return None
            total += weight * value
        return total / sum(self.weights.values())


def efficiency(*, is_success: bool, shortest: int, turns: int) -> float:
    """Share of the shortest known solution in the turns taken; 0 on failures, so that giving up never pays."""
    if not is_success:
        return 0.0
    return min(1.0, shortest / max(turns, 1))
