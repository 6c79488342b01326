"""All solutions by name."""

from collections.abc import Mapping

from upturn.environments.office.generation import Scenario
from upturn.environments.office.solutions import answer, call_form, formula, order, refusal, report
from upturn.environments.office.solutions.solution import Solution
from upturn.records import Action

PANEL: Mapping[str, Solution] = {
    name: solution
    for module in (answer, refusal, report, call_form, order, formula)
    for name, solution in module.SOLUTIONS.items()
}


def right_solutions(scenario: Scenario) -> dict[str, tuple[Action, ...]]:
    """The actions of every solution that fits the task and differs from the oracle."""
    made = {name: solution(scenario) for name, solution in PANEL.items()}
    return {
        name: tuple(actions)
        for name, actions in made.items()
        if actions is not None and tuple(actions) != scenario.draft.oracle
    }
