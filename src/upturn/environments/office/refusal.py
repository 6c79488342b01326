"""Whether a refusal is accepted: it names what is in the way, or states the plain reason after a look.

Pure. Without a look, a plain reason would be a guess: the same words would be right in every task of a family.
"""

import re
from collections.abc import Iterator, Sequence

from upturn.environments.office.generation import Draft, Look
from upturn.environments.office.state import gives_reason
from upturn.records import JsonValue, Trajectory

_WORD = re.compile(r"\w+")
MAX_WORDS = 60
"""Limit on the words of a refusal, so that listing all names or reasons fails."""


def words_of(text: JsonValue) -> str:
    """The words in lower case, with one space before, between and after them."""
    return f" {' '.join(_WORD.findall(str(text).lower()))} "


def is_plain_reason(draft: Draft, text: JsonValue) -> bool:
    """Whether the text states the reason of the draft's obstacle; False where the instruction asks for a name."""
    is_short = words_of(text).count(" ") - 1 <= MAX_WORDS
    return draft.obstacle is not None and is_short and gives_reason(draft.obstacle.reason, str(text))


def has_looked(draft: Draft, trajectory: Trajectory) -> bool:
    """Whether a call showed the obstacle, or none is needed."""
    if draft.obstacle is None:
        return False
    looks = draft.obstacle.looks
    return not looks or any(_shows(look, call) for look in looks for call in _calls(trajectory))


def _calls(trajectory: Trajectory) -> Iterator[tuple[str, str, str, bool]]:
    """App, words of the parameters, words of the result, and whether that is an error."""
    for turn, result in zip(trajectory.turns, trajectory.results, strict=True):
        if turn.action is not None:
            parameters = words_of(" ".join(map(str, turn.action.parameters.values())))
            yield turn.action.target, parameters, words_of(result.text), result.is_error


def _shows(look: Look, call: tuple[str, str, str, bool]) -> bool:
    app, parameters, result, is_error = call
    if app != look.app or (is_error and not look.result):
        return False
    return _contains(parameters, look.parameters) and _contains(result, look.result)


def _contains(text: str, wanted: Sequence[str]) -> bool:
    return all(words_of(part) in text for part in wanted)
