"""The user's judgement of a finished attempt as an evaluation. Pure functions.

A function ``evaluate`` names what it needs of the attempt as its parameters (``ATTEMPT_PARTS``). It returns True or
False, a number in [0, 1], components by name, a ``Graded``, a ``Judgement``, or None: the reward is not known,
which is not 0.
"""

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import field, fields
from pathlib import Path
from typing import TypeAlias

from upturn.environments.cases import Expected
from upturn.environments.programs.check import MakeSandbox
from upturn.errors import WorldError
from upturn.records import Evaluation, GateResult, Task, Trajectory, record
from upturn.rewards import Judgement, Rubric, evaluation_id, sum_costs


@record
class Graded:
    """A judgement with more than one number."""

    components: Mapping[str, float | bool | None]
    """Each in [0, 1]; None = not known. The score is their mean."""
    gates: Mapping[str, bool] = field(default_factory=dict)
    """Success needs all of them. Empty = one gate, ``right``: the component ``success`` is 1, or without one, all
    components are."""
    costs: Mapping[str, float] = field(default_factory=dict)
    """Costs of the whole attempt, 0 or more, besides the environment's. Give the same names in every judgement."""
    reason: str = ""
    """In words, for people; empty = none."""


Judged: TypeAlias = bool | float | Mapping[str, float | bool | None] | Graded | Judgement | None
"""What ``evaluate`` may return; a mapping has components, as ``Graded(components)``; a ``Judgement`` the one
component ``judge``."""
Evaluate: TypeAlias = Callable[..., Judged]


@record
class FinishedAttempt:
    """What ``evaluate`` may ask for, by name."""

    task: Task
    trajectory: Trajectory
    workspace: Path
    """A new folder with the files as they were at the end; removed afterwards."""
    expected: Expected
    """From ``make``."""
    answer: str
    """Empty where the attempt was cut off."""
    exit_code: int | None
    """None = there was none: no command, or it was cut off."""
    errors: str
    left_out: Mapping[str, str]
    """Files that were not kept, by path with the reason."""
    sandbox: MakeSandbox | None
    """The kit's, for ``run_check`` and ``run_pytest``."""


_MAX_REASON = 2_000
"""Characters that are stored."""
ATTEMPT_PARTS = tuple(part.name for part in fields(FinishedAttempt))


def wanted_parts(name: str, evaluate: Evaluate) -> tuple[str, ...]:
    """The parts that the function asks for; raises WorldError for a parameter that is none of them, and for a
    coroutine function."""
    if inspect.iscoroutinefunction(evaluate):
        raise WorldError(f"evaluate of {name!r} must be an ordinary function, not async; use asyncio.run inside it")
    parameters = inspect.signature(evaluate).parameters.values()
    known = [parameter.name for parameter in parameters if parameter.name in ATTEMPT_PARTS]
    for parameter in parameters:
        has_value = parameter.default is not parameter.empty or parameter.kind in (
            parameter.VAR_KEYWORD,
            parameter.VAR_POSITIONAL,
        )
        is_unusable = parameter.kind is parameter.POSITIONAL_ONLY or parameter.name not in ATTEMPT_PARTS
        if is_unusable and not has_value:
            raise WorldError(
                f"evaluate of {name!r} has the parameter {parameter.name!r}; it may have any of: "
                f"{', '.join(ATTEMPT_PARTS)}"
            )
    return tuple(known)


def graded(name: str, judged: Judged) -> Graded | None:
    """The judgement in full; None = not known. Raises WorldError for what is no judgement."""
    match judged:
        case None:
            return None
        case Graded():
            result = judged
        case Judgement(score, reason):
            result = Graded({"judge": score}, reason=reason)
        case bool() | int() | float():
            result = Graded({"quality": judged})
        case Mapping():
            result = Graded(judged)
        case _:
            raise _refusal(name, judged)
    values = [value for value in result.components.values() if value is not None]
    if not result.components or not all(
        isinstance(value, bool | int | float) and 0 <= value <= 1 for value in values
    ):
        raise _refusal(name, judged)
    if not all(isinstance(gate, bool) for gate in result.gates.values()):
        raise WorldError(f"evaluate of {name!r} returned gates that are not True or False: {dict(result.gates)!r}")
    if not all(isinstance(cost, int | float) and 0 <= cost < math.inf for cost in result.costs.values()):
        raise WorldError(f"evaluate of {name!r} returned costs that are not 0 or more: {dict(result.costs)!r}")
    return result


def _refusal(name: str, judged: object) -> WorldError:
    return WorldError(
        f"evaluate of {name!r} must return True, False, a number in 0..1, components by name, Graded(…), or None "
        f"where the reward is not known; got {judged!r:.200}"
    )


def evaluation_of(evaluator: str, trajectory: Trajectory, judgement: Graded | None) -> Evaluation:
    """The evaluation: gate ``ended`` (the attempt was not cut off), then the judgement's.

    ``missing`` where the judgement, or a component that it needs, is not known. ``efficiency`` is 1 for a success:
    how few calls a program needs is not known.
    """
    unknown = "evaluate returned None"
    reason = "" if judgement is None else judgement.reason[:_MAX_REASON]
    if judgement is not None:
        names = [name for name, value in judgement.components.items() if value is None]
        unknown = "; ".join(filter(None, (f"not known: {', '.join(names)}", reason))) if names else ""
    costs = sum_costs(trajectory.turns, ("error",))
    for cost, value in ({} if judgement is None else judgement.costs).items():
        costs[cost] = costs.get(cost, 0.0) + float(value)
    if judgement is None or unknown:
        gates: tuple[GateResult, ...] = (GateResult("judged", False, unknown),)
        components = {} if judgement is None else _numbers(judgement.components)
        identity = evaluation_id(evaluator, trajectory.id)
        return Evaluation(
            identity, trajectory.task_id, trajectory.id, evaluator, "missing", gates, components, costs, None
        )
    numbers = _numbers(judgement.components)
    deciding = [numbers["success"]] if "success" in numbers else numbers.values()
    right = {"right": all(value == 1 for value in deciding)}
    scores = ", ".join(f"{name} {value:g}" for name, value in numbers.items())
    detail = "; ".join(filter(None, (scores, reason)))
    gates = (
        GateResult("ended", trajectory.outcome == "finished", trajectory.outcome),
        *(GateResult(name, is_passed, detail) for name, is_passed in (judgement.gates or right).items()),
    )
    rubric = Rubric(evaluator, dict.fromkeys(numbers, 1.0))
    shortest = max(1, len(trajectory.turns))
    return rubric.evaluate(trajectory, gates, shortest=shortest, costs=costs, components=numbers)


def _numbers(components: Mapping[str, float | bool | None]) -> dict[str, float | None]:
    return {name: None if value is None else float(value) for name, value in components.items()}
