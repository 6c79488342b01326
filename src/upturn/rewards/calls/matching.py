"""Whether calls are the ones that a task needs: the check of BFCL's abstract syntax trees, on parsed calls.

Berkeley Function Calling Leaderboard (Patil et al., ICML 2025). Order of checks of one call: name; required
parameters; unknown parameters; types; values. Parallel calls match in any order, by an optimal assignment, where
BFCL takes the first that fits. Types and values are compared at any depth, where BFCL stops at one level. Not
covered: calls of which another order has another effect; the verifier of a state grades those.
"""

from collections.abc import Iterable, Sequence
from typing import Literal

from upturn.records import Action, Tool, record
from upturn.rewards.calls.gold import ABSENT, GoldCall
from upturn.rewards.calls.value import is_same_value, type_fault, type_of

FaultKind = Literal["name", "missing", "unknown", "type", "value", "not_called", "not_needed"]
"""``missing``: a required parameter is; ``unknown``: a parameter that the tool, or the gold call, does not have;
``not_called``: no call is left for a gold call; ``not_needed``: no gold call is left for a call."""


@record
class CallFault:
    """What is wrong with one call."""

    kind: FaultKind
    call: str
    """The gold call's name; for ``not_needed`` the call's."""
    parameter: str = ""
    """Empty = the call as a whole."""
    detail: str = ""


@record
class CallsMatch:
    """Calls and the gold calls that they stand for."""

    pairs: tuple[tuple[int, int], ...]
    """Positions of a call and of its gold call, in the order of the gold calls."""
    faults: tuple[CallFault, ...]

    @property
    def is_correct(self) -> bool:
        """True when every gold call was made as accepted, and no other."""
        return not self.faults


def match_calls(calls: Sequence[Action], gold: Sequence[GoldCall], tools: Iterable[Tool] = ()) -> CallsMatch:
    """The match with the fewest faults. No gold call: the task needs none, and every call is ``not_needed``.

    ``tools``: their schemas decide about types; a value of the type of an accepted one is right as well. Without a
    tool the accepted values alone decide.
    """
    known = {tool.name: tool for tool in tools}
    faults = [[_faults(call, wanted, known.get(wanted.name)) for wanted in gold] for call in calls]
    costs = [[_cost(item) for item in row] for row in faults]
    pairs = assign(costs)
    met, made = {wanted for _, wanted in pairs}, {call for call, _ in pairs}
    return CallsMatch(
        pairs,
        (
            *(fault for call, wanted in pairs for fault in faults[call][wanted]),
            *(CallFault("not_called", item.name) for index, item in enumerate(gold) if index not in met),
            *(CallFault("not_needed", item.name) for index, item in enumerate(calls) if index not in made),
        ),
    )


def assign(costs: Sequence[Sequence[float]]) -> tuple[tuple[int, int], ...]:
    """Pairs of a row and a column with the least sum of costs, in the order of the columns."""
    if not costs or not costs[0]:
        return ()
    from scipy.optimize import linear_sum_assignment

    rows, columns = linear_sum_assignment(costs)
    return tuple(sorted(zip(rows.tolist(), columns.tolist(), strict=True), key=lambda pair: pair[1]))


def _cost(faults: Sequence[CallFault]) -> float:
    """Another name is worse than any fault of parameters: a call stands for a gold call of its name first."""
    return 1e6 if any(fault.kind == "name" for fault in faults) else float(len(faults))


def _faults(call: Action, wanted: GoldCall, tool: Tool | None) -> list[CallFault]:
    if call.name != wanted.name:
        return [CallFault("name", wanted.name, detail=f"called {call.name!r:.100}")]
    made = call.parameters
    needed = (name for name in wanted.values if name not in wanted.optional)
    required = dict.fromkeys((*(tool.required if tool else ()), *needed))
    faults = [CallFault("missing", wanted.name, name) for name in required if name not in made]
    faults += [CallFault("unknown", wanted.name, name) for name in made if name not in wanted.values]
    for name in wanted.values:
        fault = value_fault(call, wanted, name, tool) if name in made else None
        faults += [fault] if fault else []
    return faults


def value_fault(call: Action, wanted: GoldCall, parameter: str, tool: Tool | None) -> CallFault | None:
    """What is wrong with the value of a parameter that the call and the gold call have; None = it is accepted."""
    value, accepted = call.parameters[parameter], wanted.values[parameter]
    schema = tool.properties.get(parameter) if tool else None
    is_accepted = any(is_same_value(value, item) for item in accepted)
    types = {type_of(item) for item in accepted if item != ABSENT or len(accepted) == 1}
    wrong = type_fault(value, schema)
    if schema is None and not is_accepted:
        wrong = f"{type_of(value)}, not {' or '.join(sorted(types))}"
    if wrong and type_of(value) not in types:
        return CallFault("type", wanted.name, parameter, wrong)
    return None if is_accepted else CallFault("value", wanted.name, parameter, f"{value!r:.200}")
