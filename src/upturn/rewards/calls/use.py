"""What became of calls: whether their results were used later, and whether they repeat an earlier call.

A reward for calls alone is farmed by calls, so the bonus is for results that were used, in successes. Pure
functions of trajectories.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from upturn.records import Action, Evaluation, Observation, Trajectory, Turn, record
from upturn.rewards.similarity import words

_TELLING = re.compile(r"(?=.*\d).{2,}|.{4,}")
"""Words that can show a use: of four characters, or two with a digit. Shorter ones occur by chance."""
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_DECIMAL_ZEROS = re.compile(r"(?<=\d)(\.0+|(?<=\.\d)0+)$")
MESSAGES = "user"
"""Target of messages, which are no tool calls."""


@record
class CallUse:
    """One tool call of a trajectory."""

    turn: int
    name: str
    is_valid: bool
    """The environment accepted it."""
    is_used: bool
    """A later action or text has a word or number that nothing before the call's result had."""


def call_uses(trajectory: Trajectory) -> tuple[CallUse, ...]:
    """The tool calls in order; messages to the user are none.

    New words of a result are those in no earlier observation, nor in the agent's own texts before. A use that
    paraphrases the result is not seen, nor one of a yes or no, nor of a call made for its effect; a copy without
    need counts as a use.
    """
    turns, results = trajectory.turns, trajectory.results
    written = [frozenset(_telling(f"{turn.text} {_values_text(turn.action)}")) for turn in turns]
    seen: set[str] = set()
    uses = []
    for index, (turn, result) in enumerate(zip(turns, results, strict=True)):
        seen |= {*_telling(turn.observation.text), *written[index]}
        if turn.action is None or turn.action.target == MESSAGES:
            continue
        new = set(_telling(result.text)) - seen
        is_used = not result.is_error and any(new & later for later in written[index + 1 :])
        uses.append(CallUse(index, turn.action.name, not result.is_error, is_used))
    return tuple(uses)


def _telling(text: str) -> Iterator[str]:
    """The words that can show a use; numbers as ``1234.5``, however 1,234.50 is written."""
    for word in words(_THOUSANDS.sub("", text)):
        if _TELLING.fullmatch(word):
            yield _DECIMAL_ZEROS.sub("", word)


def use_bonus(trajectory: Trajectory, evaluation: Evaluation) -> float | None:
    """1 for a success in which the result of some tool call was used, else 0.

    More calls do not raise it. A share of used calls would punish calls that are made for their effect. None = the
    evaluation is missing.
    """
    if evaluation.verdict == "missing":
        return None
    return float(evaluation.is_success and any(use.is_used for use in call_uses(trajectory)))


def repeated_calls(trajectory: Trajectory) -> tuple[int, ...]:
    """The turns that repeat an earlier call with the same parameters and got the same result.

    A call that is repeated because its result may differ, such as one after a wait, counts only where it did not.
    """
    made: dict[tuple[str, str], set[tuple[str, str]]] = {}
    repeated = []
    for index, (turn, result) in enumerate(zip(trajectory.turns, trajectory.results, strict=True)):
        if turn.action is None:
            continue
        key, answer = (turn.action.name, _values_text(turn.action)), (result.code, result.text)
        if answer in made.setdefault(key, set()):
            repeated.append(index)
        made[key].add(answer)
    return tuple(repeated)


def times_made(turns: Sequence[Turn], last: Observation) -> int:
    """How often the last turn's call was made with the result that it has now, itself included; 0 without a call.

    ``last``: the observation after the last turn.
    """
    if not turns or turns[-1].action is None:
        return 0
    results = [*(turn.observation for turn in turns[1:]), last]
    call = (turns[-1].action.name, turns[-1].action.parameters)
    return sum(
        turn.action is not None and (turn.action.name, turn.action.parameters) == call and result == last
        for turn, result in zip(turns, results, strict=True)
    )


def _values_text(action: Action | None) -> str:
    parameters: Mapping[str, object] = {} if action is None else action.parameters
    return json.dumps(parameters, sort_keys=True, ensure_ascii=False, default=str)


def valid_tools(uses: Sequence[CallUse]) -> frozenset[str]:
    """The tools with at least one accepted call."""
    return frozenset(use.name for use in uses if use.is_valid)
