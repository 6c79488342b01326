"""A graded reward for calls: partial credit for names, parameters and values.

ToolRL (Qian et al., arXiv 2504.13958, section 3.3): a finer reward trains tool use better than one for the whole
call. Pure functions.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from upturn.records import Action, Tool, record
from upturn.rewards.calls.gold import GoldCall
from upturn.rewards.calls.matching import assign, value_fault

LARGEST_CORRECT = 3.0
"""The correctness of the paper is in [-3, 3], its format in {0, 1}."""


@record
class ToolReward:
    """The reward of a message's calls."""

    format: float
    """1 for a message that parses, else 0."""
    correct: float
    """In [-3, 3]; 3 = every gold call was made as accepted, and no other."""

    @property
    def total(self) -> float:
        """The sum, in [-3, 4], as the paper trains on it."""
        return self.format + self.correct

    @property
    def share(self) -> float:
        """The sum scaled to [0, 1], for a rubric."""
        return (self.total + LARGEST_CORRECT) / (2 * LARGEST_CORRECT + 1)


def grade_calls(
    calls: Sequence[Action], gold: Sequence[GoldCall], tools: Iterable[Tool] = (), *, is_parsed: bool = True
) -> ToolReward:
    """6 · R / S − 3 with R = name + parameters + values, for the assignment of calls with the largest R.

    name: the Jaccard index of the names as multisets. By pair of a call and a gold call of its name, parameters:
    the Jaccard index of their parameters' names; values: how many are accepted, with ``tools`` as in
    ``match_calls``. S = 1 + gold calls + their parameters is the largest R. An optional parameter that is left out
    counts as made, where the paper has one value for each. The assignment is optimal, where the paper's code is
    greedy. ``is_parsed`` False: no format, and no calls.
    """
    made = list(calls) if is_parsed else []
    known = {tool.name: tool for tool in tools}
    points = [[_points(call, wanted, known.get(call.name)) for wanted in gold] for call in made]
    pairs = assign([[-value for value in row] for row in points])
    reached = _names(made, gold) + sum(points[call][wanted] for call, wanted in pairs)
    largest = 1 + len(gold) + sum(len(wanted.values) for wanted in gold)
    return ToolReward(float(is_parsed), 2 * LARGEST_CORRECT * reached / largest - LARGEST_CORRECT)


def _names(calls: Sequence[Action], gold: Sequence[GoldCall]) -> float:
    made, wanted = Counter(call.name for call in calls), Counter(call.name for call in gold)
    either = (made | wanted).total()
    return (made & wanted).total() / either if either else 1.0


def _points(call: Action, wanted: GoldCall, tool: Tool | None) -> float:
    if call.name != wanted.name:
        return 0.0
    names = {*call.parameters, *wanted.optional}
    either = names | wanted.values.keys()
    shared = len(names & wanted.values.keys()) / len(either) if either else 1.0
    accepted = sum(
        value_fault(call, wanted, name, tool) is None if name in call.parameters else name in wanted.optional
        for name in wanted.values
    )
    return shared + accepted
