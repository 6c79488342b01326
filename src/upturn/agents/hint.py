"""Attempts that were helped: told something beside their task that must not reach what is trained.

A helped attempt read other tokens than the row it becomes: its tokens were sampled after the hint, and are
learned as if written after the plain task. Such a row is no sample of the policy, so it counts as rendered.
"""

import re
from collections.abc import Iterator
from dataclasses import replace

from upturn.errors import TrainingError
from upturn.records import Observation, TokenRow, Trajectory, WrittenSpan, record


@record
class Hint:
    """What one attempt was told, and how its task begins without."""

    text: str
    """The words that were added, those included that introduce an answer: the answer alone may well stand in the
    task, or has to be written. Empty = there are none, only tokens."""
    observation: Observation
    """The task's first one, without the hint."""
    hinted_ids: tuple[int, ...]
    """All tokens before the first that the model wrote, as the attempt read them."""
    plain_ids: tuple[int, ...]
    """The same without the hint."""

    @property
    def token_ids(self) -> tuple[int, ...]:
        """The tokens that ``hinted_ids`` has and ``plain_ids`` has not: what lies between their common
        beginning and their common end. Empty when there is no hint."""
        ours, plain = self.hinted_ids, self.plain_ids
        start = _common(ours, plain)
        end = min(_common(ours[::-1], plain[::-1]), len(ours) - start, len(plain) - start)
        return ours[start : len(ours) - end]


def without_hint(trajectory: Trajectory, hint: Hint) -> Trajectory:
    """The attempt as if its task had been given plainly: other opening tokens, what was written as it was sampled.

    It counts as rendered, without log-probs, and has an id of its own. Raises TrainingError where a row does
    not begin with the hinted opening, so that the hint could stand anywhere in it.
    """
    if not hint.token_ids:
        raise TrainingError(
            f"trajectory {trajectory.id!r} was given a hint without tokens: its hinted opening has nothing that "
            "the plain one has not"
        )
    first = tuple(replace(turn, observation=hint.observation) for turn in trajectory.turns[:1])
    return replace(
        trajectory,
        id=f"{trajectory.id}/without-hint",
        turns=first + trajectory.turns[1:],
        origin="rendered",
        rows=tuple(_plain_row(trajectory.id, row, hint) for row in trajectory.rows),
        temperature=None,
        model_version="",
    )


def gives_away(trajectory: Trajectory, hint: Hint, mentions: tuple[str, ...] = ()) -> bool:
    """True when what the attempt wrote repeats the hint, or has one of the words ``mentions``.

    ``trajectory``: without the hint, as ``without_hint`` makes it. Words are compared whole, in any case and
    spacing. Raises TrainingError where the hint stands in what the attempt read: such a row would teach from
    the answer.
    """
    written = " ".join(_normal(turn.text) for turn in trajectory.turns)
    words = _normal(hint.text)
    if (words and words in written) or any(_has_word(written, word) for word in mentions):
        return True
    places = [(row, start) for row in trajectory.rows for start in _places(row.token_ids, hint.token_ids)]
    size = len(hint.token_ids)
    if any(span.start < start + size and start < span.stop for row, start in places for span in row.spans):
        return True
    is_read = words and any(words in _normal(turn.observation.text) for turn in trajectory.turns)
    if places or is_read:
        where = f"tokens {list(hint.token_ids)!r}" if places else f"words {hint.text!r}"
        raise TrainingError(
            f"the hint leaks: trajectory {trajectory.id!r} still reads its {where} after it was taken out of the "
            "opening. Keep the hint out of the task and of what the environment answers, and let it begin with "
            "words that stand nowhere else"
        )
    return False


def _plain_row(trajectory_id: str, row: TokenRow, hint: Hint) -> TokenRow:
    opening, moved = len(hint.hinted_ids), len(hint.plain_ids) - len(hint.hinted_ids)
    if row.token_ids[:opening] != hint.hinted_ids or any(span.start < opening for span in row.spans):
        raise TrainingError(
            f"trajectory {trajectory_id!r} has a row that does not begin with the hinted opening, so the hint "
            "cannot be taken out of it; use an agent whose context only grows"
        )
    spans = tuple(WrittenSpan(span.turn, span.start + moved, span.stop + moved) for span in row.spans)
    return TokenRow(hint.plain_ids + row.token_ids[opening:], spans, (), row.fork_cause)


def _common(left: tuple[int, ...], right: tuple[int, ...]) -> int:
    """Length of their common beginning."""
    pairs = enumerate(zip(left, right, strict=False))
    return next((place for place, (ours, theirs) in pairs if ours != theirs), min(len(left), len(right)))


def _places(tokens: tuple[int, ...], wanted: tuple[int, ...]) -> Iterator[int]:
    size = len(wanted)
    return (start for start in range(len(tokens) - size + 1) if tokens[start : start + size] == wanted)


def _normal(text: str) -> str:
    return " ".join(text.casefold().split())


def _has_word(text: str, word: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(_normal(word))}(?!\w)", text) is not None
