"""Errands pass validation; without one gate of their verifier a check fails.

The gate ``ended`` covers what errands cannot do themselves: the last action ends the task.
"""

from dataclasses import replace
from typing import Any

import pytest

from benchmarks.errands import compose
from benchmarks.errands.kit import ErrandsKit
from upturn.environments.validation import Check, Plan, validate_family
from upturn.records import Evaluation, Task, Trajectory
from upturn.rewards import verdict_of


def checks(kit: ErrandsKit, family: str, plan: Plan) -> dict[str, Check]:
    return {check.name: check for check in validate_family(kit, family, plan).checks}


def failed_checks(results: dict[str, Check]) -> set[str]:
    return {name for name, check in results.items() if check.holds is False}


class WithoutGateKit(ErrandsKit):
    """Errands with a verifier that lacks one gate."""

    def __init__(self, gate: str) -> None:
        super().__init__()
        verify_original = self.verifier.verify

        def verify(task: Task, trajectory: Trajectory) -> Evaluation:
            evaluation = verify_original(task, trajectory)
            gates = tuple(gate_result for gate_result in evaluation.gates if gate_result.name != gate)
            return replace(
                evaluation, gates=gates, verdict=verdict_of(gates), score=float(verdict_of(gates) == "success")
            )

        self.verifier.verify = verify  # type: ignore[method-assign]


@pytest.mark.parametrize(
    ("gate", "family", "expected"),
    [
        ("goal", "mail_file", {"nothing", "floor", "mutants"}),
        ("answer", "cell_ask", {"nothing", "echo", "claim", "dump", "stuff", "refuse", "own refusal", "mutants"}),
        ("untouched", "sheet_total", {"neighbour", "mutants"}),
        ("safe", "event_shift", {"own outsider"}),
    ],
)
def test_a_verifier_without_a_gate_fails_validation(gate: str, family: str, expected: set[str]) -> None:
    results = failed_checks(checks(WithoutGateKit(gate), family, Plan(tasks=2, random_trajectories=1)))
    assert expected - {"floor"} <= results, results
    assert not failed_checks(checks(ErrandsKit(), family, Plan(tasks=2, random_trajectories=1)))


def test_a_verifier_that_accepts_substrings_fails_validation() -> None:
    class LenientKit(ErrandsKit):
        def __init__(self) -> None:
            super().__init__()
            verify_original = self.verifier.verify

            def verify(task: Task, trajectory: Trajectory) -> Evaluation:
                message: Any = trajectory.final_state["message"]
                answer = compose(task).draft.answer
                if message and answer is not None and answer in message["text"].split():
                    state = {**trajectory.final_state, "message": {**message, "text": answer}}
                    return verify_original(task, replace(trajectory, final_state=state))
                return verify_original(task, trajectory)

            self.verifier.verify = verify  # type: ignore[method-assign]

    results = checks(LenientKit(), "cell_ask", Plan(tasks=2, random_trajectories=1))
    assert {"dump", "stuff", "mutants"} <= failed_checks(results)


@pytest.mark.slow
@pytest.mark.parametrize("family", ErrandsKit().families)
def test_errands_passes_validation(family: str) -> None:
    results = checks(ErrandsKit(), family, Plan(tasks=20))
    assert failed_checks(results) == set(), {name: results[name].violation for name in failed_checks(results)}
