"""Quality gates: what every result must pass before it counts as success."""

from collections.abc import Iterable

from upturn.records import EvaluationVerdict, GateResult


def verdict_of(gates: Iterable[GateResult]) -> EvaluationVerdict:
    """``success`` when there is at least one gate and all pass; no gate at all is ``missing``."""
    results = tuple(gates)
    if not results:
        return "missing"
    return "success" if all(gate.is_passed for gate in results) else "failure"
